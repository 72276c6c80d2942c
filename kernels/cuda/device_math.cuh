// What kernels of several files share: sums over a warp or a block in a fixed order, and loads and
// stores in an element type that is known at the launch only.
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

// Eight neighbours in as few accesses as their type allows. `index` is a multiple of eight and the
// array aligned to 16 bytes.
__device__ inline void LoadEightAs(DType dtype, const void* in, std::int64_t index, float (&x)[8]) {
  if (dtype == DType::kF32) {
    const auto* from = reinterpret_cast<const float4*>(static_cast<const float*>(in) + index);
    const float4 low = from[0], high = from[1];
    x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
    x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
    return;
  }
  const uint4 eight =
      *reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(in) + index);
  const std::uint32_t pairs[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = dtype == DType::kBF16
                            ? __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(pairs[i]))
                            : __half22float2(reinterpret_cast<const __half2&>(pairs[i]));
    x[2 * i] = pair.x, x[2 * i + 1] = pair.y;
  }
}

__device__ inline void StoreEightAs(DType dtype, void* out, std::int64_t index,
                                    const float (&x)[8]) {
  if (dtype == DType::kF32) {
    auto* to = reinterpret_cast<float4*>(static_cast<float*>(out) + index);
    to[0] = {x[0], x[1], x[2], x[3]};
    to[1] = {x[4], x[5], x[6], x[7]};
    return;
  }
  std::uint32_t pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (dtype == DType::kBF16) {
      reinterpret_cast<__nv_bfloat162&>(pairs[i]) = __floats2bfloat162_rn(x[2 * i], x[2 * i + 1]);
    } else {
      reinterpret_cast<__half2&>(pairs[i]) = __floats2half2_rn(x[2 * i], x[2 * i + 1]);
    }
  }
  *reinterpret_cast<uint4*>(static_cast<std::uint16_t*>(out) + index) = {pairs[0], pairs[1],
                                                                         pairs[2], pairs[3]};
}

}  // namespace thresher
