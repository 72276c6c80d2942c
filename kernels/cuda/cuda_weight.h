// A weight on a GPU: plain numbers, row-major, as cuBLASLt multiplies them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/ops/packed_weight.h"

namespace thresher {

class CudaWeight final : public PackedWeight {
 public:
  enum class Use { kProducts, kLookUp };
  CudaWeight(Use use, DType dtype, std::int64_t rows, std::int64_t cols, DeviceBuffer memory)
      : use_(use), dtype_(dtype), rows_(rows), cols_(cols), memory_(std::move(memory)) {}

  std::int64_t rows() const override { return rows_; }
  std::int64_t cols() const override { return cols_; }
  std::int64_t num_bytes() const override { return rows_ * cols_ * SizeOf(dtype_); }
  std::int64_t BytesRead(std::int64_t num_rows) const override;
  Use use() const { return use_; }
  DType dtype() const { return dtype_; }
  const void* memory() const { return memory_.get(); }  // [rows, cols]

 private:
  Use use_;
  DType dtype_;
  std::int64_t rows_, cols_;
  DeviceBuffer memory_;
};

// Stacks the parts, dequantised and rounded to `dtype` (bf16 or f32). InvalidArgument naming the
// part that is wrong; ResourceExhausted if the GPU has no room.
absl::StatusOr<std::unique_ptr<CudaWeight>> PackCudaWeight(std::span<const WeightSource> parts,
                                                           DType dtype, CudaDevice& device);

// A table to look up: bf16 if the source is, else f32, so that its numbers are the file's.
absl::StatusOr<std::unique_ptr<CudaWeight>> PackCudaEmbedding(const WeightSource& source,
                                                              CudaDevice& device);

}  // namespace thresher
