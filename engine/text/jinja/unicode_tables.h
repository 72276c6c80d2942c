// Character classes and case mappings as Python's str has them. The rows are generated.
#pragma once

#include <cstdint>

namespace thresher::jinja {

enum ClassFlag : std::uint16_t {
  kPrintable = 1,
  kAlpha = 2,
  kDecimal = 4,
  kDigit = 8,
  kLower = 16,
  kUpper = 32,
  kTitle = 64,
  kCaseIgnorable = 128,  // a final sigma looks past it
  kNumeric = 256,
};

// Code points first..last, both in, have exactly these flags. Ascending; gaps have none.
struct ClassRun {
  char32_t first;
  char32_t last;
  std::uint16_t flags;
};
// Every stride-th code point of first..last maps to itself plus delta. Ascending by first.
struct CaseRun {
  char32_t first;
  char32_t last;
  int stride;
  int delta;
};
// One code point that maps to several, as UTF-8.
struct CaseSpecial {
  char32_t code;
  const char* text;
};

extern const ClassRun kClassRuns[];
extern const int kClassRunsSize;
extern const CaseRun kUpperRuns[];
extern const int kUpperRunsSize;
extern const CaseSpecial kUpperSpecials[];
extern const int kUpperSpecialsSize;
extern const CaseRun kLowerRuns[];
extern const int kLowerRunsSize;
extern const CaseSpecial kLowerSpecials[];
extern const int kLowerSpecialsSize;
extern const CaseRun kTitleRuns[];
extern const int kTitleRunsSize;
extern const CaseSpecial kTitleSpecials[];
extern const int kTitleSpecialsSize;

}  // namespace thresher::jinja
