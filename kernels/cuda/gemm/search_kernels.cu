#include <cuda_bf16.h>

#include "kernels/cuda/gemm/search_kernels.h"
#include "kernels/cuda/overlapped_launch.cuh"

namespace thresher {
namespace {

__global__ void FillRandom(__nv_bfloat16* to, std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    // The mixer of SplitMix64.
    std::uint64_t bits = static_cast<std::uint64_t>(i + 1) * 0x9e3779b97f4a7c15;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
    const float unit = static_cast<float>(bits >> 40) * 0x1p-24f;
    to[i] = __float2bfloat16_rn(4 * unit - 2);
  }
}

__global__ void InBetween(float* memory) {
  LetLaterKernelsStart();
  WaitForEarlierKernels();
  memory[threadIdx.x] = 0.5f * memory[threadIdx.x] + 1;
}

}  // namespace

cudaError_t LaunchFillRandom(void* to, std::int64_t count, cudaStream_t stream) {
  FillRandom<<<1024, 256, 0, stream>>>(static_cast<__nv_bfloat16*>(to), count);
  return cudaGetLastError();
}

cudaError_t LaunchInBetween(float* memory, cudaStream_t stream) {
  return LaunchOverlapped(InBetween, {.grid = dim3(1), .block = dim3(32)}, stream, memory);
}

}  // namespace thresher
