// That a tokenizer and a model belong together.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/text/tokenizer.h"

namespace thresher {

// Passes the tokenizer on. InvalidArgument if it could give an id that the embedding of
// `vocab_size` rows lacks; its own error with `path` before it. Fewer tokens than rows is usual:
// embeddings are padded.
absl::StatusOr<std::unique_ptr<Tokenizer>> CheckTokenizer(
    absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer, int vocab_size, const std::string& path);

}  // namespace thresher
