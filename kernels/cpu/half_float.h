// f16 and bf16 as bits, for code that runs on any x86-64. Not for files compiled for a wider
// instruction set: the linker may keep their copy of an inline function.
#pragma once

#include <bit>
#include <cstdint>

namespace thresher {

inline float Bf16ToFloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Rounds to nearest, ties to even; keeps infinities and makes every NaN quiet.
inline std::uint16_t FloatToBf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// Exact, subnormals included: the exponent is moved by a multiplication that cannot round.
inline float F16ToFloat(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fffu) << 13;
  if ((bits & 0x7c00u) == 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | magnitude);
  const float value = std::bit_cast<float>(magnitude) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

// The f16 of a number that f16 holds exactly (one read by F16ToFloat); other numbers are truncated.
inline std::uint16_t ExactF16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x7f800000u) {
    return static_cast<std::uint16_t>(sign | 0x7c00u | (magnitude >> 13 & 0x3ffu));
  }
  const float moved = std::bit_cast<float>(magnitude) * 0x1p-112f;
  return static_cast<std::uint16_t>(sign | std::bit_cast<std::uint32_t>(moved) >> 13);
}

}  // namespace thresher
