#include "engine/text/numbered_tokenizer.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/text/text_check.h"

namespace thresher {
namespace {

constexpr int kNumBytes = 256;

}  // namespace

NumberedTokenizer::NumberedTokenizer(int vocab_size) {
  tokens_.reserve(static_cast<std::size_t>(vocab_size));
  for (int id = 0; id < vocab_size; ++id) {
    tokens_.push_back(id < kNumBytes ? std::string(1, static_cast<char>(id))
                                     : absl::StrCat("<", id, ">"));
  }
}

absl::Status NumberedTokenizer::Encode(std::string_view text, const EncodeOptions& /*options*/,
                                       std::vector<TokenId>& ids) const {
  if (absl::Status status = CheckText(text); !status.ok()) return status;
  ids.reserve(ids.size() + text.size());
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return absl::OkStatus();
}

std::string_view NumberedTokenizer::TokenBytes(TokenId id) const {
  return id >= 0 && id < vocab_size() ? std::string_view(tokens_[static_cast<std::size_t>(id)])
                                      : std::string_view();
}

std::optional<TokenId> NumberedTokenizer::Find(std::string_view token) const {
  if (token.size() == 1) return static_cast<unsigned char>(token[0]);
  TokenId id = 0;
  if (token.size() < 3 || !absl::SimpleAtoi(std::string(token.substr(1, token.size() - 2)), &id)) {
    return std::nullopt;
  }
  if (TokenBytes(id) != token) return std::nullopt;
  return id;
}

}  // namespace thresher
