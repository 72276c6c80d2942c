// What a product is, apart from who computes it.
#pragma once

#include <compare>
#include <cstdint>

#include "kernels/device/dtype.h"

namespace thresher {

// out [n, rows] = x [n, cols] · weightᵀ, for any n.
struct GemmShape {
  DType dtype = DType::kBF16;  // of the weight and of x
  std::int64_t rows = 0, cols = 0;
  DType out = DType::kF32;
  auto operator<=>(const GemmShape&) const = default;
};

// Device memory; each tensor dense, from a multiple of 16 bytes on.
struct GemmCall {
  const void* x = nullptr;
  const void* weight = nullptr;
  const float* bias = nullptr;  // [rows]; null: none
  void* out = nullptr;
  std::int64_t n = 0;
};

// Rows of input are counted in buckets that double, with three steps in between: 1, 2, 3, 4, 5, 6,
// 7, 8, 10, 12, 14, 16, 20, … A product's choice is made for the largest of its bucket.
int GemmBucketOf(std::int64_t n);
std::int64_t RowsOfGemmBucket(int bucket);

}  // namespace thresher
