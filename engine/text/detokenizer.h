// One sequence's tokens back to text, a token at a time. Never emits part of a code point.
#pragma once

#include <string>
#include <string_view>

#include "engine/text/tokenizer.h"

namespace thresher {

// Whether the sequence stands alone or goes on from a prompt. Only a tokenizer that puts a space of
// its own before a text tells them apart: a first token's space is dropped at kTextStart and kept
// at kAfterPrompt.
enum class DetokenizerStart { kTextStart, kAfterPrompt };

// The tokenizer outlives it. One thread at a time. Cost: linear in the bytes of the tokens.
class Detokenizer final {
 public:
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens,
              DetokenizerStart start = DetokenizerStart::kTextStart);
  // Appends to `text` what the token makes certain: whole code points only. Bytes that can no
  // longer become a code point are emitted as U+FFFD, one for each maximal ill-formed part
  // (Unicode 3.9).
  void Append(TokenId id, std::string& text);
  // Emits what is held back, an incomplete code point as U+FFFD. The sequence has ended.
  void Finish(std::string& text);

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_tokens_;
  bool drops_next_space_;
  std::string held_;  // at most three bytes: the beginning of a code point
};

}  // namespace thresher
