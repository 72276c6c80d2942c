// Well-formedness follows table 3-7 of the Unicode standard.
#include "engine/text/utf8.h"

#include <utf8proc.h>

#include <cstring>

namespace thresher {
namespace {

unsigned char ByteAt(std::string_view text, std::size_t index) {
  return static_cast<unsigned char>(text[index]);
}

struct LeadByte {
  int length;  // 0 if no code point begins so
  unsigned char second_low, second_high;
};

LeadByte ClassifyLead(unsigned char lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Step ReadUtf8(std::string_view bytes) {
  const unsigned char first = ByteAt(bytes, 0);
  const LeadByte lead = ClassifyLead(first);
  if (lead.length == 0) return {Utf8Kind::kIllFormed, 1, 0};
  if (lead.length == 1) return {Utf8Kind::kCodePoint, 1, first};
  std::uint32_t code_point = first & (0x7Fu >> lead.length);
  for (int i = 1; i < lead.length; ++i) {
    if (static_cast<std::size_t>(i) == bytes.size()) return {Utf8Kind::kIncomplete, i, 0};
    const unsigned char next = ByteAt(bytes, i);
    const unsigned char low = i == 1 ? lead.second_low : 0x80;
    const unsigned char high = i == 1 ? lead.second_high : 0xBF;
    if (next < low || next > high) return {Utf8Kind::kIllFormed, i, 0};
    code_point = (code_point << 6) | (next & 0x3Fu);
  }
  return {Utf8Kind::kCodePoint, lead.length, code_point};
}

std::size_t ValidUtf8Length(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    // Eight ASCII bytes at a time: most text is ASCII.
    while (at + 8 <= text.size()) {
      std::uint64_t word;
      std::memcpy(&word, text.data() + at, sizeof(word));
      if ((word & 0x8080808080808080u) != 0) break;
      at += 8;
    }
    while (at < text.size() && ByteAt(text, at) < 0x80) ++at;
    if (at == text.size()) break;
    const Utf8Step step = ReadUtf8(text.substr(at));
    if (step.kind != Utf8Kind::kCodePoint) break;
    at += step.length;
  }
  return at;
}

void AppendUtf8(std::uint32_t code_point, std::string& text) {
  if (code_point < 0x80) {
    text.push_back(static_cast<char>(code_point));
    return;
  }
  const int num_tail = code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
  const std::uint32_t lead_mark = num_tail == 1 ? 0xC0 : num_tail == 2 ? 0xE0 : 0xF0;
  text.push_back(static_cast<char>(lead_mark | (code_point >> (6 * num_tail))));
  for (int i = num_tail - 1; i >= 0; --i) {
    text.push_back(static_cast<char>(0x80 | ((code_point >> (6 * i)) & 0x3F)));
  }
}

std::size_t CodePointStart(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && (ByteAt(text, at) & 0xC0) == 0x80) --at;
  return at;
}

bool IsWhiteSpace(std::uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool IsWordCodePoint(std::uint32_t c) {
  if (c == 0x200C || c == 0x200D) return true;
  // Circled and squared Latin letters are symbols that count as alphabetic.
  if ((c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
      (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189)) {
    return true;
  }
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

}  // namespace thresher
