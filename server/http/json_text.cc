#include "server/http/json_text.h"

#include <algorithm>
#include <charconv>

#include "engine/text/utf8.h"

namespace thresher {
namespace {

constexpr char kHex[] = "0123456789abcdef";
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

void AppendEscaped(unsigned char byte, std::string& out) {
  switch (byte) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
  }
}

}  // namespace

void AppendJsonString(std::string_view text, std::string& out) {
  out += '"';
  std::size_t plain = 0;  // bytes from here on are copied as they are
  std::size_t i = 0;
  while (i < text.size()) {
    const unsigned char byte = text[i];
    if (byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\') {
      ++i;
      continue;
    }
    if (byte >= 0x80) {
      const Utf8Step step = ReadUtf8(text.substr(i));
      if (step.kind == Utf8Kind::kCodePoint) {
        i += step.length;
        continue;
      }
    }
    out.append(text, plain, i - plain);
    if (byte >= 0x80) {
      out += kReplacement;
    } else {
      AppendEscaped(byte, out);
    }
    plain = ++i;
  }
  out.append(text, plain, text.size() - plain);
  out += '"';
}

void AppendJsonNumber(float value, std::string& out) {
  constexpr float kMost = 9999;
  // A NaN compares false with everything and lands at the low end.
  const float finite = value >= -kMost ? std::min(value, kMost) : -kMost;
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), finite);
  out.append(buffer, result.ptr);
}

void AppendJsonInteger(std::int64_t value, std::string& out) {
  char buffer[24];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  out.append(buffer, result.ptr);
}

}  // namespace thresher
