// Weights on the device in the layout its GEMM likes, and where they come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kernels/device/dtype.h"

namespace thresher {

// Numbers that follow from a seed instead of lying in memory: independent, normal-like, rounded to
// bf16. They are the same on every device, and however the matrix is cut and stacked.
struct GeneratedNumbers {
  std::uint64_t seed = 0;
  float deviation = 1;         // standard deviation; above zero and finite
  std::int64_t first_row = 0;  // which row of the generated matrix stored row 0 is
};

// A matrix [rows, cols] (output features, input features) as it lies in a model file, or a part.
struct WeightSource {
  const std::byte* bytes = nullptr;  // first byte of stored row 0; valid during the packing call
  WeightFormat format = WeightFormat::kF32;
  std::int64_t rows = 0;  // stored rows
  std::int64_t cols = 0;  // stored columns; a multiple of BlockElements(format)
  // The rows wanted, in order, as stored row numbers; empty means all, in order. This is how a rank
  // takes its shard and how permuted rows are put right.
  std::span<const std::int32_t> row_order = {};
  // The columns wanted: [first_col, first_col + num_cols); num_cols 0 means all. Any offset is
  // accepted; one that is not a multiple of BlockElements(format) costs the low-bit form.
  std::int64_t first_col = 0;
  std::int64_t num_cols = 0;
  // Instead of bytes; the format is then kBF16.
  std::optional<GeneratedNumbers> generated = {};
};

// Owned by the model; made by TransformerOps, read only by the ops that made it.
class PackedWeight {
 public:
  virtual ~PackedWeight() = default;
  virtual std::int64_t rows() const = 0;       // output features
  virtual std::int64_t cols() const = 0;       // input features
  virtual std::int64_t num_bytes() const = 0;  // device memory held
  // Bytes that one GEMM with `num_rows` rows of input must read: the floor of its time.
  virtual std::int64_t BytesRead(std::int64_t num_rows) const = 0;
};

}  // namespace thresher
