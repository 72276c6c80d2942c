#include "engine/text/jinja/string_escapes.h"

#include <cctype>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/text/jinja/error.h"
#include "engine/text/jinja/python_text.h"

namespace thresher::jinja {
namespace {

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The escape \xhh, \uhhhh or \Uhhhhhhhh whose digits start at `at`.
absl::StatusOr<char32_t> ReadHex(std::string_view text, std::size_t at, int num_digits) {
  char32_t code = 0;
  for (int i = 0; i < num_digits; ++i) {
    int digit = at + i < text.size() ? HexValue(text[at + i]) : -1;
    if (digit < 0) return Failure("a truncated \\x, \\u or \\U escape in a string");
    code = code * 16 + digit;
  }
  if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
    return Failure("an escape in a string that is no character");
  }
  return code;
}

std::string_view Simple(char c) {
  switch (c) {
    case '\n':
      return "";
    case '\\':
      return "\\";
    case '\'':
      return "'";
    case '"':
      return "\"";
    case 'a':
      return "\a";
    case 'b':
      return "\b";
    case 'f':
      return "\f";
    case 'n':
      return "\n";
    case 'r':
      return "\r";
    case 't':
      return "\t";
    case 'v':
      return "\v";
    default:
      return "?";
  }
}

}  // namespace

absl::StatusOr<std::string> Unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 >= text.size()) {
      out += text[i];
      continue;
    }
    char c = text[++i];
    if (c == 'x' || c == 'u' || c == 'U') {
      int num_digits = c == 'x' ? 2 : (c == 'u' ? 4 : 8);
      auto code = ReadHex(text, i + 1, num_digits);
      if (!code.ok()) return code.status();
      AppendCodePoint(*code, out);
      i += num_digits;
    } else if (c >= '0' && c <= '7') {
      char32_t code = 0;
      std::size_t end = i;
      while (end < text.size() && end < i + 3 && text[end] >= '0' && text[end] <= '7') {
        code = code * 8 + (text[end++] - '0');
      }
      AppendCodePoint(code, out);
      i = end - 1;
    } else if (c == 'N') {
      return absl::UnimplementedError("the escape \\N in a string");
    } else if (Simple(c) != "?") {
      out += Simple(c);
    } else {
      out += '\\';  // Python keeps an escape that it does not know.
      out += c;
    }
  }
  return out;
}

}  // namespace thresher::jinja
