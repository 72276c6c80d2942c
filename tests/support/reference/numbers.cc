#include "tests/support/reference/numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace thresher {

float Bf16ToFloat(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

std::uint16_t FloatToBf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  const std::uint32_t below = bits & 0xffff, kept = bits >> 16;
  const bool up = below > 0x8000 || (below == 0x8000 && (kept & 1) != 0);
  return static_cast<std::uint16_t>(kept + (up ? 1 : 0));
}

float F16ToFloat(std::uint16_t bits) {
  const int sign = bits >> 15, exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = 0;
  if (exponent == 31) {
    value = fraction != 0 ? NAN : INFINITY;
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(1024 + fraction, exponent - 25);
  }
  return static_cast<float>(sign != 0 ? -value : value);
}

std::uint16_t FloatToF16(float value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude >= 65520) return sign | 0x7c00;  // rounds past the largest finite, 65504
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int unit = std::max(exponent - 11, -24);                      // exponent of the last place
  const double units = std::nearbyint(std::ldexp(magnitude, -unit));  // ties to even
  const int whole = static_cast<int>(units);
  if (unit == -24) return sign | static_cast<std::uint16_t>(whole);  // also the smallest normals
  // whole is 1024 … 2048; 2048 carries into the exponent by plain addition.
  return static_cast<std::uint16_t>(sign + ((unit + 25) << 10) + (whole - 1024));
}

double ReadElement(const void* array, DType dtype, std::int64_t index) {
  if (dtype == DType::kF32) return static_cast<const float*>(array)[index];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(array)[index];
  return dtype == DType::kBF16 ? Bf16ToFloat(bits) : F16ToFloat(bits);
}

void WriteElement(void* array, DType dtype, std::int64_t index, float value) {
  if (dtype == DType::kF32) {
    static_cast<float*>(array)[index] = value;
  } else {
    static_cast<std::uint16_t*>(array)[index] =
        dtype == DType::kBF16 ? FloatToBf16(value) : FloatToF16(value);
  }
}

double RoundingOf(DType dtype) {
  if (dtype == DType::kF32) return 0x1p-24;
  return dtype == DType::kBF16 ? 0x1p-8 : 0x1p-11;
}

std::vector<float> NormalValues(std::int64_t count, double deviation, std::uint64_t seed) {
  std::vector<float> values(count);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (float& value : values) {
    // SplitMix64 (G. Steele et al., OOPSLA 2014); then a sum of four uniforms of 16 bits, whose
    // variance is 4 / 12.
    state += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    const std::uint64_t sum = (z & 0xffff) + (z >> 16 & 0xffff) + (z >> 32 & 0xffff) + (z >> 48);
    value = static_cast<float>((static_cast<double>(sum) * 0x1p-16 - 2) * 1.7320508 * deviation);
  }
  return values;
}

}  // namespace thresher
