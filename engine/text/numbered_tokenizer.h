// Tokens for a model that was never trained on text: the 256 bytes, then tokens that are nothing
// but their number.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/text/tokenizer.h"

namespace thresher {

// Tokens 0 to 255 are bytes, and every text is made of them alone; token 300 reads "<300>". None is
// special, and none begins or ends a text.
class NumberedTokenizer final : public Tokenizer {
 public:
  // `vocab_size` is at least 256.
  explicit NumberedTokenizer(int vocab_size);

  absl::Status Encode(std::string_view text, const EncodeOptions& options,
                      std::vector<TokenId>& ids) const override;
  std::string_view TokenBytes(TokenId id) const override;
  bool strips_leading_space() const override { return false; }
  bool IsSpecial(TokenId) const override { return false; }
  int vocab_size() const override { return static_cast<int>(tokens_.size()); }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return std::nullopt; }
  std::optional<TokenId> Find(std::string_view token) const override;

 private:
  std::vector<std::string> tokens_;
};

}  // namespace thresher
