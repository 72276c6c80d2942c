#include "tests/support/fakes/fake_tokenizer.h"

#include <new>

namespace thresher {

FakeTokenizer::FakeTokenizer(int vocab_size, bool strips_leading_space)
    : strips_leading_space_(strips_leading_space) {
  for (int id = 0; id < vocab_size; ++id) {
    texts_.push_back(id < 256 ? std::string(1, static_cast<char>(id))
                              : "w" + std::to_string(id) + " ");
  }
}

absl::Status FakeTokenizer::Encode(std::string_view text, const EncodeOptions&,
                                   std::vector<TokenId>& ids) const {
  if (text.find(kTooMuch) != std::string_view::npos) throw std::bad_alloc();
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return absl::OkStatus();
}

std::string_view FakeTokenizer::TokenBytes(TokenId id) const {
  if (id < 0 || id >= vocab_size()) return {};
  return texts_[static_cast<std::size_t>(id)];
}

std::optional<TokenId> FakeTokenizer::Find(std::string_view token) const {
  for (int id = 0; id < vocab_size(); ++id) {
    if (texts_[static_cast<std::size_t>(id)] == token) return id;
  }
  return std::nullopt;
}

}  // namespace thresher
