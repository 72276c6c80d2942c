#include "server/http/json_text.h"

#include <algorithm>
#include <charconv>

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

int Utf8SequenceLength(std::string_view text) {
  if (text.empty()) return 0;
  const auto at = [text](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const auto continues = [&at](std::size_t i) { return (at(i) & 0xC0) == 0x80; };
  const unsigned lead = at(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    // E0 must not be overlong, ED must not be a surrogate.
    const bool second = lead == 0xE0   ? at(1) >= 0xA0 && at(1) <= 0xBF
                        : lead == 0xED ? at(1) >= 0x80 && at(1) <= 0x9F
                                       : continues(1);
    return second && continues(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool second = lead == 0xF0   ? at(1) >= 0x90 && at(1) <= 0xBF
                        : lead == 0xF4 ? at(1) >= 0x80 && at(1) <= 0x8F
                                       : continues(1);
    return second && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const int length = Utf8SequenceLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

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
      const int length = Utf8SequenceLength(text.substr(i));
      if (length > 0) {
        i += length;
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
