// Launches of the product with few rows of input.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/gemm/config.h"
#include "kernels/device/dtype.h"

namespace thresher {

// out [n, rows] = x [n, cols] · weightᵀ + bias, bf16 operands, sums in f32.
struct SkinnyLaunch {
  CUtensorMap weight;  // [rows, cols], boxes of [64 · groups, 64] with the 128-byte swizzle
  CUtensorMap x;       // [n, cols], boxes of [SkinnyBatch(n), 64] likewise
  const float* bias = nullptr;  // [rows]; null: none
  void* out = nullptr;
  DType out_dtype = DType::kBF16;  // or f32
  std::int32_t n = 0, rows = 0;
  SkinnyConfig config;
  SkinnyWork work;
  std::int32_t stages = 0;  // at least kSkinnyMinStages
};

// The kernel may start while earlier ones of the stream still run: it fetches weights, and waits
// for them before it reads or writes anything else. Named by groups and SkinnyBatch.
using SkinnyLaunchFunction = cudaError_t(const SkinnyLaunch&, cudaStream_t);
SkinnyLaunchFunction LaunchSkinny1x8, LaunchSkinny1x16, LaunchSkinny1x32, LaunchSkinny1x64,
    LaunchSkinny2x8, LaunchSkinny2x16, LaunchSkinny2x32, LaunchSkinny2x64, LaunchSkinny4x8,
    LaunchSkinny4x16, LaunchSkinny4x32, LaunchSkinny4x64;

}  // namespace thresher
