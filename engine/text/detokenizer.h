// One sequence's tokens back to text, a token at a time. Never emits part of a code point.
#pragma once

#include <string>
#include <string_view>

#include "engine/text/tokenizer.h"

namespace thresher {

// The tokenizer outlives it. One thread at a time.
class Detokenizer final {
 public:
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens);
  // Appends to `text` what the token makes certain: whole code points only. Bytes that can no
  // longer become a code point are emitted as U+FFFD, one for each maximal ill-formed part
  // (Unicode 3.9).
  void Append(TokenId id, std::string& text);
  // Emits what is held back, incomplete code points as U+FFFD. The sequence has ended.
  void Finish(std::string& text);

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_tokens_;
  bool at_start_ = true;
  std::string held_;  // at most three bytes
};

}  // namespace thresher
