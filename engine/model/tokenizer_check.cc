#include "engine/model/tokenizer_check.h"

#include "absl/strings/str_cat.h"

namespace thresher {

absl::StatusOr<std::unique_ptr<Tokenizer>> CheckTokenizer(
    absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer, int vocab_size, const std::string& path) {
  if (!tokenizer.ok()) {
    return absl::Status(tokenizer.status().code(),
                        absl::StrCat(path, ": ", tokenizer.status().message()));
  }
  if ((*tokenizer)->vocab_size() > vocab_size) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the tokenizer has ", (*tokenizer)->vocab_size(),
                     " tokens, the model's embedding only ", vocab_size, " rows"));
  }
  return tokenizer;
}

}  // namespace thresher
