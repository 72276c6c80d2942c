// What kind of token a vocabulary lists: SentencePiece's types, which GGUF files use too.
#pragma once

namespace thresher {

enum class TokenType {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,      // never made from text unless special tokens are parsed
  kUserDefined = 4,  // always cut out of a text whole
  kUnused = 5,
  kByte = 6,  // "<0x0A>"
};

inline bool IsSpecialType(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

}  // namespace thresher
