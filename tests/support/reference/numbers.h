// Element conversions and seeded inputs for reference computations, independent of the kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/device/dtype.h"

namespace thresher {

// Exact widenings, and roundings to nearest even (NaN stays NaN).
float Bf16ToFloat(std::uint16_t bits);
std::uint16_t FloatToBf16(float value);
float F16ToFloat(std::uint16_t bits);
std::uint16_t FloatToF16(float value);

// Element `index` of an array of f32, bf16 or f16, and its writer.
double ReadElement(const void* array, DType dtype, std::int64_t index);
void WriteElement(void* array, DType dtype, std::int64_t index, float value);

// The largest relative error of one rounding to `dtype` (half a unit in the last place of 1).
double RoundingOf(DType dtype);

// Approximately normal values with mean 0 and the given deviation; the same for equal seeds.
std::vector<float> NormalValues(std::int64_t count, double deviation, std::uint64_t seed);

}  // namespace thresher
