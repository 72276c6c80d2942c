// Rows of a model file as numbers. Block formats are taken apart into integers, scales and minima,
// from which both the low-bit panels and the exact f32 values are made.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device/dtype.h"

namespace thresher {

// How a block format's numbers group: value = scale · integer + minimum, the same scale and minimum
// for `size` neighbouring columns. The product is exact in f32 for every format, so the value is
// rounded once, at the sum, and so equals GGUF's.
struct GroupLayout {
  int size = 0;    // columns that share a scale: 32, or 16 for Q6_K; 0 for plain formats
  int lowest = 0;  // integers are in [lowest, highest]
  int highest = 0;
  bool half_scales = false;  // scales and minima are f16 numbers
  bool has_minimum = false;  // else every minimum is zero
};
GroupLayout GroupsOf(WeightFormat format);

// Takes `num_blocks` blocks apart.
//   integers [num_blocks · BlockElements], scales and minima [num_blocks · BlockElements / size]
// `format` is a block format.
void DecodeGroups(WeightFormat format, const std::byte* blocks, std::int64_t num_blocks,
                  std::int8_t* integers, float* scales, float* minima);

// The values of columns [first_col, first_col + num_cols) of the row that starts at `row`, exactly
// as GGUF defines them. Any format; the columns must be in the row.
void DequantizeRow(WeightFormat format, const std::byte* row, std::int64_t first_col,
                   std::int64_t num_cols, float* out);

}  // namespace thresher
