// A tokenizer whose tokens are the strings that the test gives it.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/tokenizer.h"

namespace thresher::testing {

class ByteTokenizer final : public Tokenizer {
 public:
  explicit ByteTokenizer(std::vector<std::string> tokens, std::set<TokenId> special = {},
                         bool strips_leading_space = false)
      : tokens_(std::move(tokens)),
        special_(std::move(special)),
        strips_leading_space_(strips_leading_space) {}

  // The longest token at each place; Unimplemented where none begins.
  absl::Status Encode(std::string_view text, const EncodeOptions&,
                      std::vector<TokenId>& ids) const override {
    while (!text.empty()) {
      TokenId best = -1;
      for (TokenId id = 0; id < vocab_size(); ++id) {
        const bool begins = !tokens_[id].empty() && text.starts_with(tokens_[id]);
        if (begins && (best < 0 || tokens_[id].size() > tokens_[best].size())) best = id;
      }
      if (best < 0) return absl::UnimplementedError("no token begins so");
      ids.push_back(best);
      text.remove_prefix(tokens_[best].size());
    }
    return absl::OkStatus();
  }
  std::string_view TokenBytes(TokenId id) const override {
    return id >= 0 && id < vocab_size() ? std::string_view(tokens_[id]) : std::string_view();
  }
  bool strips_leading_space() const override { return strips_leading_space_; }
  bool IsSpecial(TokenId id) const override { return special_.contains(id); }
  int vocab_size() const override { return static_cast<int>(tokens_.size()); }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return std::nullopt; }
  std::optional<TokenId> Find(std::string_view token) const override {
    for (TokenId id = 0; id < vocab_size(); ++id) {
      if (tokens_[id] == token) return id;
    }
    return std::nullopt;
  }

 private:
  std::vector<std::string> tokens_;
  std::set<TokenId> special_;
  bool strips_leading_space_;
};

}  // namespace thresher::testing
