// The printable code points by which byte-level vocabularies write bytes (GPT-2, 2019).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace thresher {

// Bytes that Latin-1 prints stand for themselves; the others are U+0100 upward in their order, so
// that a space is U+0120.
class ByteAlphabet final {
 public:
  ByteAlphabet();
  std::string_view Symbol(unsigned char byte) const { return symbols_[byte]; }
  // The bytes that a token's text writes; absent if it has a code point outside the alphabet.
  std::optional<std::string> ToBytes(std::string_view text) const;

 private:
  static constexpr int kEnd = 0x100 + 68;  // 68 bytes are not printed by Latin-1

  std::array<std::string, 256> symbols_;
  std::array<std::int16_t, kEnd> bytes_;  // by code point; -1: no byte
};

}  // namespace thresher
