#include "engine/text/jinja/python_text.h"

#include <string.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/text/jinja/unicode_tables.h"

namespace thresher::jinja {

char32_t NextCodePoint(std::string_view text, std::size_t& position) {
  auto byte = [&](std::size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u;
  };
  unsigned lead = byte(position);
  int extra = lead < 0x80 ? 0 : (lead < 0xe0 ? 1 : (lead < 0xf0 ? 2 : 3));
  char32_t code = extra == 0 ? lead : lead & (0x3f >> extra);
  for (int i = 1; i <= extra; ++i) code = (code << 6) | (byte(position + i) & 0x3f);
  position = std::min(text.size(), position + 1 + extra);
  return code;
}

void AppendCodePoint(char32_t code, std::string& text) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0 | (code >> 6));
    text += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    text += static_cast<char>(0xe0 | (code >> 12));
    text += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    text += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    text += static_cast<char>(0xf0 | (code >> 18));
    text += static_cast<char>(0x80 | ((code >> 12) & 0x3f));
    text += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    text += static_cast<char>(0x80 | (code & 0x3f));
  }
}

std::int64_t Length(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::size_t Offset(std::string_view text, std::int64_t index) {
  std::size_t position = 0;
  for (; index > 0 && position < text.size(); --index) NextCodePoint(text, position);
  return position;
}

std::vector<char32_t> CodePoints(std::string_view text) {
  std::vector<char32_t> codes;
  codes.reserve(text.size());
  for (std::size_t position = 0; position < text.size();) {
    codes.push_back(NextCodePoint(text, position));
  }
  return codes;
}

std::size_t FindText(std::string_view text, std::string_view part, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  // string_view::find is quadratic for a part that almost matches everywhere; memmem is not.
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<const char*>(found) - text.data();
}

std::uint16_t ClassOf(char32_t code) {
  const ClassRun* end = kClassRuns + kClassRunsSize;
  const ClassRun* run = std::lower_bound(
      kClassRuns, end, code, [](const ClassRun& row, char32_t value) { return row.last < value; });
  return run != end && run->first <= code ? run->flags : 0;
}

bool IsSpace(char32_t code) {
  if (code < 0x80) return (code >= 9 && code <= 13) || (code >= 28 && code <= 32);
  return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
         code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

namespace {

bool Strips(char32_t code, const std::optional<std::vector<char32_t>>& set) {
  if (!set) return IsSpace(code);
  return std::binary_search(set->begin(), set->end(), code);
}

std::optional<std::vector<char32_t>> StripSet(std::optional<std::string_view> characters) {
  if (!characters) return std::nullopt;
  std::vector<char32_t> codes = CodePoints(*characters);
  std::sort(codes.begin(), codes.end());
  codes.erase(std::unique(codes.begin(), codes.end()), codes.end());
  return codes;
}

}  // namespace

std::string_view StripLeft(std::string_view text, std::optional<std::string_view> characters) {
  const auto set = StripSet(characters);
  std::size_t start = 0;
  while (start < text.size()) {
    std::size_t next = start;
    if (!Strips(NextCodePoint(text, next), set)) break;
    start = next;
  }
  return text.substr(start);
}

std::string_view StripRight(std::string_view text, std::optional<std::string_view> characters) {
  const auto set = StripSet(characters);
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t start = end - 1;
    while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xc0) == 0x80) --start;
    std::size_t position = start;
    if (!Strips(NextCodePoint(text, position), set)) break;
    end = start;
  }
  return text.substr(0, end);
}

std::string_view Strip(std::string_view text, std::optional<std::string_view> characters) {
  return StripRight(StripLeft(text, characters), characters);
}

std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  std::size_t start = 0;
  for (std::size_t position = 0; position < text.size();) {
    std::size_t end = position;
    char32_t code = NextCodePoint(text, position);
    bool breaks = (code >= 10 && code <= 13) || (code >= 28 && code <= 30) || code == 0x85 ||
                  code == 0x2028 || code == 0x2029;
    if (!breaks) continue;
    if (code == '\r' && position < text.size() && text[position] == '\n') ++position;
    lines.push_back(text.substr(start, (keep_ends ? position : end) - start));
    start = position;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

void AppendRepr(std::string_view text, std::string& out) {
  bool has_single = text.find('\'') != std::string_view::npos;
  bool has_double = text.find('"') != std::string_view::npos;
  char quote = has_single && !has_double ? '"' : '\'';
  out += quote;
  for (std::size_t position = 0; position < text.size();) {
    std::size_t start = position;
    char32_t code = NextCodePoint(text, position);
    if (code == static_cast<unsigned char>(quote) || code == '\\') {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code == '\n') {
      out += "\\n";
    } else if (code == '\r') {
      out += "\\r";
    } else if (code == '\t') {
      out += "\\t";
    } else if (code == ' ' || (ClassOf(code) & kPrintable) != 0) {
      out += text.substr(start, position - start);
    } else if (code < 0x100) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned>(code));
    } else if (code < 0x10000) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<unsigned>(code));
    } else {
      absl::StrAppendFormat(&out, "\\U%08x", static_cast<unsigned>(code));
    }
  }
  out += quote;
}

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  auto end =
      std::to_chars(std::begin(buffer), std::end(buffer), value, std::chars_format::scientific);
  std::string_view shown(buffer, end.ptr - buffer);
  std::string sign;
  if (shown[0] == '-') {
    sign = "-";
    shown.remove_prefix(1);
  }
  std::size_t e = shown.find('e');
  int exponent = std::atoi(std::string(shown.substr(e + 1)).c_str());
  std::string digits(shown.substr(0, e));
  digits.erase(std::remove(digits.begin(), digits.end(), '.'), digits.end());
  int count = static_cast<int>(digits.size());
  // Python's rule: an exponent below -4 or from 16 up is written out.
  if (exponent < -4 || exponent >= 16) {
    std::string mantissa = digits.substr(0, 1);
    if (count > 1) mantissa += "." + digits.substr(1);
    return absl::StrFormat("%s%se%c%02d", sign, mantissa, exponent < 0 ? '-' : '+',
                           std::abs(exponent));
  }
  if (exponent < 0) return sign + "0." + std::string(-exponent - 1, '0') + digits;
  if (count <= exponent + 1) return sign + digits + std::string(exponent + 1 - count, '0') + ".0";
  return sign + digits.substr(0, exponent + 1) + "." + digits.substr(exponent + 1);
}

}  // namespace thresher::jinja
