// What is well-formed UTF-8, and the few properties of code points that tokenizers ask for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace thresher {

enum class Utf8Kind {
  kCodePoint,   // `length` bytes are one code point
  kIllFormed,   // `length` bytes are one maximal ill-formed part (Unicode 3.9, table 3-8)
  kIncomplete,  // all bytes given begin a code point and more could complete it
};

struct Utf8Step {
  Utf8Kind kind;
  int length;                // 1 to 4
  std::uint32_t code_point;  // if kind is kCodePoint
};

// What `bytes` (not empty) begins with.
Utf8Step ReadUtf8(std::string_view bytes);

// The length of the longest prefix of whole, well-formed code points. Cost: one pass.
std::size_t ValidUtf8Length(std::string_view text);
inline bool IsUtf8(std::string_view text) { return ValidUtf8Length(text) == text.size(); }

// Appends a code point below 0x110000 that is no surrogate.
void AppendUtf8(std::uint32_t code_point, std::string& text);

// The offset of the code point that ends at `end` > 0 of a valid text.
std::size_t CodePointStart(std::string_view text, std::size_t end);

// Unicode White_Space: what `\s` is to Hugging Face's tokenizers.
bool IsWhiteSpace(std::uint32_t code_point);

// A letter, mark, decimal digit, connector or joiner: what `\w` is to Hugging Face's added tokens.
bool IsWordCodePoint(std::uint32_t code_point);

}  // namespace thresher
