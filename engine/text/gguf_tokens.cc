// Checks every list against the others before anybody indexes them.
#include "engine/text/gguf_tokens.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/gguf_file.h"
#include "engine/text/vocabulary.h"

namespace thresher {
namespace {

absl::StatusOr<std::vector<TokenType>> ReadTypes(const GgufFile& file, std::size_t num_tokens) {
  const std::optional<std::vector<std::int64_t>> values = file.Ints("tokenizer.ggml.token_type");
  if (!values.has_value()) {
    return absl::InvalidArgumentError("tokenizer.ggml.token_type must be an array of integers");
  }
  if (values->size() != num_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.token_type has ", values->size(),
                                                   " elements for ", num_tokens, " tokens"));
  }
  std::vector<TokenType> types;
  types.reserve(num_tokens);
  for (std::size_t i = 0; i < num_tokens; ++i) {
    const std::int64_t value = (*values)[i];
    if (value < 1 || value > 6) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokenizer.ggml.token_type[", i, "] is ", value, "; types are 1 to 6"));
    }
    types.push_back(static_cast<TokenType>(value));
  }
  return types;
}

absl::StatusOr<std::optional<TokenId>> ReadTokenId(const GgufFile& file, std::string_view key,
                                                   std::size_t num_tokens) {
  const std::optional<std::int64_t> id = file.Int(key);
  if (!id.has_value()) return std::optional<TokenId>();
  if (*id < 0 || *id >= static_cast<std::int64_t>(num_tokens)) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(key), " is ", *id, "; there are ", num_tokens, " tokens"));
  }
  return std::optional<TokenId>(static_cast<TokenId>(*id));
}

// The token to add at one end of a text, if the file asks for one.
absl::Status AddIfAsked(const GgufFile& file, std::string_view key, bool by_default,
                        std::optional<TokenId> token, std::vector<TokenId>& ids) {
  const std::optional<std::int64_t> asked = file.Int(key);
  const bool adds = asked.has_value() ? *asked != 0 : by_default;
  if (!adds) return absl::OkStatus();
  if (token.has_value()) {
    ids.push_back(*token);
    return absl::OkStatus();
  }
  // A default asks for nothing that the file does not have.
  if (!asked.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(key), " is set, but the file names no such token"));
}

}  // namespace

absl::StatusOr<GgufTokens> ReadGgufTokens(const GgufFile& file, bool adds_bos_by_default) {
  GgufTokens tokens;
  std::optional<std::vector<std::string_view>> texts = file.Strings("tokenizer.ggml.tokens");
  if (!texts.has_value()) {
    return absl::InvalidArgumentError("tokenizer.ggml.tokens must be an array of strings");
  }
  if (texts->size() > static_cast<std::size_t>(Vocabulary::kMaxSize)) {
    return absl::InvalidArgumentError(absl::StrCat("tokenizer.ggml.tokens has ", texts->size(),
                                                   " elements; the limit is ",
                                                   Vocabulary::kMaxSize));
  }
  tokens.texts = *std::move(texts);
  absl::StatusOr<std::vector<TokenType>> types = ReadTypes(file, tokens.texts.size());
  if (!types.ok()) return types.status();
  tokens.types = *std::move(types);
  const auto bos = ReadTokenId(file, "tokenizer.ggml.bos_token_id", tokens.texts.size());
  if (!bos.ok()) return bos.status();
  const auto eos = ReadTokenId(file, "tokenizer.ggml.eos_token_id", tokens.texts.size());
  if (!eos.ok()) return eos.status();
  tokens.bos = *bos;
  tokens.eos = *eos;
  absl::Status status = AddIfAsked(file, "tokenizer.ggml.add_bos_token", adds_bos_by_default,
                                   tokens.bos, tokens.prefix);
  if (!status.ok()) return status;
  status = AddIfAsked(file, "tokenizer.ggml.add_eos_token", false, tokens.eos, tokens.suffix);
  if (!status.ok()) return status;
  return tokens;
}

}  // namespace thresher
