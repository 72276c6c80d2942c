// Python's str over well-formed UTF-8: positions are code points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace thresher::jinja {

// The code point at `position` (bytes), which moves past it.
char32_t NextCodePoint(std::string_view text, std::size_t& position);
void AppendCodePoint(char32_t code, std::string& text);
std::int64_t Length(std::string_view text);
// Byte offset of the code point `index`; the size if there are fewer.
std::size_t Offset(std::string_view text, std::int64_t index);
std::vector<char32_t> CodePoints(std::string_view text);
// The offset (bytes) of `part` from `from` on, or npos. Linear, whatever the part.
std::size_t FindText(std::string_view text, std::string_view part, std::size_t from);

// Flags of unicode_tables.h.
std::uint16_t ClassOf(char32_t code);
// str.isspace's characters, which strip and split use.
bool IsSpace(char32_t code);

// str.strip and its halves; `characters` empty means whitespace.
std::string_view StripLeft(std::string_view text, std::optional<std::string_view> characters);
std::string_view StripRight(std::string_view text, std::optional<std::string_view> characters);
std::string_view Strip(std::string_view text, std::optional<std::string_view> characters);

std::string Upper(std::string_view text);
std::string Lower(std::string_view text);  // with the final sigma
std::string Title(std::string_view text);
std::string Capitalize(std::string_view text);
std::string SwapCase(std::string_view text);

// str.splitlines: eleven kinds of line ends.
std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends);

// What repr shows: quoted, with escapes for what does not print.
void AppendRepr(std::string_view text, std::string& out);
// The shortest decimal that reads back as the same double, as Python writes it.
std::string FloatRepr(double value);

}  // namespace thresher::jinja
