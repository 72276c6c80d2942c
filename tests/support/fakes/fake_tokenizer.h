// A tokenizer whose text is plain to see: ids below 256 are bytes, others read "w300 ".
#pragma once

#include <string>
#include <vector>

#include "engine/text/tokenizer.h"

namespace thresher {

class FakeTokenizer final : public Tokenizer {
 public:
  explicit FakeTokenizer(int vocab_size, bool strips_leading_space = false);
  // A text with this in it is one that there is no memory for: std::bad_alloc.
  static constexpr char kTooMuch[] = "more than there is";

  // One id a byte.
  absl::Status Encode(std::string_view text, const EncodeOptions& options,
                      std::vector<TokenId>& ids) const override;
  std::string_view TokenBytes(TokenId id) const override;
  bool strips_leading_space() const override { return strips_leading_space_; }
  bool IsSpecial(TokenId) const override { return false; }
  int vocab_size() const override { return static_cast<int>(texts_.size()); }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return std::nullopt; }
  std::optional<TokenId> Find(std::string_view token) const override;

 private:
  const bool strips_leading_space_;
  std::vector<std::string> texts_;
};

}  // namespace thresher
