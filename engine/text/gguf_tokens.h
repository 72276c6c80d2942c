// The tokens that a GGUF file lists, whichever kind of tokenizer they belong to.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/token_type.h"
#include "engine/text/tokenizer.h"
#include "scheduler/ids.h"

namespace thresher {

struct GgufTokens {
  std::vector<std::string_view> texts;  // by id; they point into the file
  std::vector<TokenType> types;         // by id
  std::optional<TokenId> bos, eos;
  std::vector<TokenId> prefix, suffix;  // what add_special_tokens puts around a text
};

// InvalidArgument naming the key that is missing, of the wrong length or out of range.
absl::StatusOr<GgufTokens> ReadGgufTokens(const GgufFile& file, bool adds_bos_by_default);

// The tokenizer of a file whose tokenizer.ggml.model is "llama". Errors as TokenizerFromGguf.
absl::StatusOr<std::unique_ptr<Tokenizer>> SentencePieceFromGguf(const GgufFile& file);

}  // namespace thresher
