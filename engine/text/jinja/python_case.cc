// Python's case mappings: full mappings of Unicode, and the final sigma.
#include <algorithm>

#include "engine/text/jinja/python_text.h"
#include "engine/text/jinja/unicode_tables.h"

namespace thresher::jinja {
namespace {

constexpr char32_t kCapitalSigma = 0x3a3;
constexpr char32_t kSmallSigma = 0x3c3;
constexpr char32_t kFinalSigma = 0x3c2;

struct CaseTable {
  const CaseRun* runs;
  int num_runs;
  const CaseSpecial* specials;
  int num_specials;
};

CaseTable UpperTable() { return {kUpperRuns, kUpperRunsSize, kUpperSpecials, kUpperSpecialsSize}; }
CaseTable LowerTable() { return {kLowerRuns, kLowerRunsSize, kLowerSpecials, kLowerSpecialsSize}; }
CaseTable TitleTable() { return {kTitleRuns, kTitleRunsSize, kTitleSpecials, kTitleSpecialsSize}; }

void AppendMapped(char32_t code, const CaseTable& table, std::string& out) {
  for (int i = 0; i < table.num_specials; ++i) {
    if (table.specials[i].code == code) {
      out += table.specials[i].text;
      return;
    }
  }
  // Runs interleave where capitals and small letters alternate, so all that start before are asked.
  for (int i = 0; i < table.num_runs && table.runs[i].first <= code; ++i) {
    const CaseRun& run = table.runs[i];
    if (code <= run.last && (code - run.first) % run.stride == 0) {
      AppendCodePoint(code + run.delta, out);
      return;
    }
  }
  AppendCodePoint(code, out);
}

bool IsCased(char32_t code) { return (ClassOf(code) & (kLower | kUpper | kTitle)) != 0; }
bool IsIgnorable(char32_t code) { return (ClassOf(code) & kCaseIgnorable) != 0; }

// A sigma is final if a letter comes before it and none after, over what is case-ignorable.
bool IsFinalSigma(const std::vector<char32_t>& codes, std::size_t index) {
  std::size_t before = index;
  while (before > 0 && IsIgnorable(codes[before - 1])) --before;
  if (before == 0 || !IsCased(codes[before - 1])) return false;
  std::size_t after = index + 1;
  while (after < codes.size() && IsIgnorable(codes[after])) ++after;
  return after == codes.size() || !IsCased(codes[after]);
}

void AppendLower(const std::vector<char32_t>& codes, std::size_t index, std::string& out) {
  char32_t code = codes[index];
  if (code == kCapitalSigma) {
    AppendCodePoint(IsFinalSigma(codes, index) ? kFinalSigma : kSmallSigma, out);
  } else if (code < 0x80) {
    out += static_cast<char>(code >= 'A' && code <= 'Z' ? code + 32 : code);
  } else {
    AppendMapped(code, LowerTable(), out);
  }
}

void AppendUpper(char32_t code, std::string& out) {
  if (code < 0x80) {
    out += static_cast<char>(code >= 'a' && code <= 'z' ? code - 32 : code);
  } else {
    AppendMapped(code, UpperTable(), out);
  }
}

}  // namespace

std::string Upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t position = 0; position < text.size();) {
    AppendUpper(NextCodePoint(text, position), out);
  }
  return out;
}

std::string Lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const std::vector<char32_t> codes = CodePoints(text);
  for (std::size_t i = 0; i < codes.size(); ++i) AppendLower(codes, i, out);
  return out;
}

std::string Title(std::string_view text) {
  std::string out;
  const std::vector<char32_t> codes = CodePoints(text);
  bool previous_cased = false;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (previous_cased) {
      AppendLower(codes, i, out);
    } else {
      AppendMapped(codes[i], TitleTable(), out);
    }
    previous_cased = IsCased(codes[i]);
  }
  return out;
}

std::string Capitalize(std::string_view text) {
  std::string out;
  const std::vector<char32_t> codes = CodePoints(text);
  if (codes.empty()) return out;
  AppendMapped(codes[0], TitleTable(), out);
  for (std::size_t i = 1; i < codes.size(); ++i) AppendLower(codes, i, out);
  return out;
}

std::string SwapCase(std::string_view text) {
  std::string out;
  const std::vector<char32_t> codes = CodePoints(text);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    std::uint16_t flags = ClassOf(codes[i]);
    if ((flags & kUpper) != 0) {
      AppendLower(codes, i, out);
    } else if ((flags & kLower) != 0) {
      AppendUpper(codes[i], out);
    } else {
      AppendCodePoint(codes[i], out);
    }
  }
  return out;
}

}  // namespace thresher::jinja
