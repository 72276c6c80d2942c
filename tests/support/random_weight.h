// Weights of every format with random numbers, as a model file would hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/ops/packed_weight.h"

namespace thresher {

inline constexpr WeightFormat kAllWeightFormats[] = {
    WeightFormat::kF32,  WeightFormat::kF16,  WeightFormat::kBF16, WeightFormat::kQ8_0,
    WeightFormat::kQ4_0, WeightFormat::kQ4_1, WeightFormat::kQ5_0, WeightFormat::kQ5_1,
    WeightFormat::kQ4_K, WeightFormat::kQ5_K, WeightFormat::kQ6_K};

struct RandomWeight {
  // Integers are uniform over all that the format holds; scales, minima and plain numbers have
  // random sign and magnitude within [2^-8, 2^-6). `cols` is whole blocks. Same seed, same bytes.
  static RandomWeight Make(WeightFormat format, std::int64_t rows, std::int64_t cols,
                           std::uint32_t seed);
  WeightSource source() const {
    return {.bytes = bytes.data(), .format = format, .rows = rows, .cols = cols};
  }

  WeightFormat format = WeightFormat::kF32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::byte> bytes;
};

// Numbers in (-1, 1) that bf16 holds exactly.
std::vector<float> RandomBf16Values(std::size_t count, std::uint32_t seed);

}  // namespace thresher
