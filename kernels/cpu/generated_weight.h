// Weights made from a seed, for measuring without a file. One function gives the numbers to both
// twins: a counter-based generator, so that each device makes any part of a matrix by itself.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cpu/philox.h"
#include "kernels/ops/packed_weight.h"

namespace thresher {

// So many neighbouring columns come from one call of the generator; a group starts at a multiple.
inline constexpr int kGeneratedGroup = 4;

// A group's numbers as integers in [-510, 510]: each is the sum of four bytes less its mean, which
// is nearly normal. `group` is the first column over kGeneratedGroup.
constexpr std::array<std::int32_t, kGeneratedGroup> GeneratedIntegers(std::uint64_t seed,
                                                                      std::int64_t row,
                                                                      std::int64_t group) {
  const std::array<std::uint32_t, 4> words =
      Philox({static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(row), 0, 0},
             {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  std::array<std::int32_t, kGeneratedGroup> sums = {};
  for (int i = 0; i < kGeneratedGroup; ++i) {
    const std::uint32_t word = words[static_cast<std::size_t>(i)];
    const std::uint32_t sum =
        (word & 255u) + (word >> 8 & 255u) + (word >> 16 & 255u) + (word >> 24);
    sums[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(sum) - 510;
  }
  return sums;
}

// What an integer is multiplied by, in f32, before the product is rounded to bf16. A byte's
// variance is (256² - 1) / 12; the root of four times that is the divisor.
constexpr float GeneratedUnit(float deviation) {
  return static_cast<float>(static_cast<double>(deviation) / 147.80054127093942);
}

// Columns [first_col, first_col + num_cols) of stored row `row`. out [num_cols]
void GenerateRow(const GeneratedNumbers& numbers, std::int64_t row, std::int64_t first_col,
                 std::int64_t num_cols, float* out);

}  // namespace thresher
