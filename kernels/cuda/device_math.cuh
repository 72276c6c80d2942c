// What kernels of several files share: sums over a warp or a block in a fixed order, and stores in
// an element type that is known at the launch only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/device/dtype.h"

namespace thresher {

constexpr unsigned kAllLanes = 0xffffffffu;

// Every lane gets the sum, added in the same order in each.
template <typename T>
__device__ inline T WarpSum(T value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, offset);
  }
  return value;
}

// Every thread of a block of kWarps warps gets the sum. `partial` [kWarps] is shared memory; the
// caller synchronises before it uses it again.
template <int kWarps, typename T>
__device__ inline T BlockSum(T value, T* partial) {
  value = WarpSum(value);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  T sum = 0;
  for (int i = 0; i < kWarps; ++i) sum += partial[i];
  return sum;
}

// Rounded to nearest, ties to even.
__device__ inline void StoreAs(DType dtype, void* out, std::int64_t index, float value) {
  if (dtype == DType::kF32) {
    static_cast<float*>(out)[index] = value;
  } else if (dtype == DType::kBF16) {
    static_cast<__nv_bfloat16*>(out)[index] = __float2bfloat16_rn(value);
  } else {
    static_cast<__half*>(out)[index] = __float2half_rn(value);
  }
}

__device__ inline float LoadAs(DType dtype, const void* in, std::int64_t index) {
  if (dtype == DType::kF32) return static_cast<const float*>(in)[index];
  if (dtype == DType::kBF16) return __bfloat162float(static_cast<const __nv_bfloat16*>(in)[index]);
  return __half2float(static_cast<const __half*>(in)[index]);
}

}  // namespace thresher
