#include <algorithm>

#include "kernels/cuda/device_math.cuh"
#include "kernels/cuda/row_kernels.h"

namespace thresher {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 1 << 16;

int BlocksFor(std::int64_t elements) {
  return static_cast<int>(std::min(kMaxBlocks, (elements + kThreads - 1) / kThreads));
}

// A block a row. The sum of squares is the same for a row wherever it comes from, so that the fused
// form has the bits of the two ops.
__global__ void __launch_bounds__(kThreads)
    RmsNormRows(const float* x, float* residual, const float* weight, float epsilon, std::int64_t c,
                DType out_dtype, void* out) {
  __shared__ float partial[kThreads / 32];
  const std::int64_t first = std::int64_t{blockIdx.x} * c;
  float squares = 0;
  for (std::int64_t i = threadIdx.x; i < c; i += kThreads) {
    float value = x[first + i];
    if (residual != nullptr) {
      value += residual[first + i];
      residual[first + i] = value;
    }
    squares += value * value;
  }
  const float sum = BlockSum<kThreads / 32>(squares, partial);
  const float factor = 1.0f / sqrtf(sum / static_cast<float>(c) + epsilon);
  const float* from = residual != nullptr ? residual : x;
  for (std::int64_t i = threadIdx.x; i < c; i += kThreads) {
    StoreAs(out_dtype, out, first + i, from[first + i] * factor * weight[i]);
  }
}

__global__ void __launch_bounds__(kThreads)
    SiluMulRows(const float* gate_up, std::int64_t n, std::int64_t c, DType out_dtype, void* out) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n * c; i += step) {
    const std::int64_t row = i / c;
    const float gate = gate_up[i + row * c], up = gate_up[i + row * c + c];
    // Where exp(−gate) overflows the quotient is 0, as silu is to the last bit that counts.
    StoreAs(out_dtype, out, i, gate / (1.0f + expf(-gate)) * up);
  }
}

__global__ void __launch_bounds__(kThreads)
    GatherRows(const void* table, DType table_dtype, const std::int32_t* rows,
               const std::int32_t* drawn, std::int64_t n, std::int64_t c, float* out) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n * c; i += step) {
    const std::int64_t row = i / c;
    const std::int32_t from = rows[row] >= 0 ? rows[row] : drawn[-1 - rows[row]];
    out[i] = LoadAs(table_dtype, table, (from - row) * c + i);
  }
}

__global__ void __launch_bounds__(kThreads)
    FillRows(const float* bias, std::int64_t n, std::int64_t c, float* out) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n * c; i += step) {
    out[i] = bias[i % c];
  }
}

}  // namespace

cudaError_t LaunchRmsNorm(const float* x, float* residual, const float* weight, float epsilon,
                          std::int64_t n, std::int64_t c, DType out_dtype, void* out,
                          cudaStream_t stream) {
  if (n == 0 || c == 0) return cudaSuccess;
  RmsNormRows<<<static_cast<unsigned>(n), kThreads, 0, stream>>>(x, residual, weight, epsilon, c,
                                                                 out_dtype, out);
  return cudaGetLastError();
}

cudaError_t LaunchSiluMul(const float* gate_up, std::int64_t n, std::int64_t c, DType out_dtype,
                          void* out, cudaStream_t stream) {
  if (n * c == 0) return cudaSuccess;
  SiluMulRows<<<BlocksFor(n * c), kThreads, 0, stream>>>(gate_up, n, c, out_dtype, out);
  return cudaGetLastError();
}

cudaError_t LaunchGatherRows(const void* table, DType table_dtype, const std::int32_t* rows,
                             const std::int32_t* drawn, std::int64_t n, std::int64_t c, float* out,
                             cudaStream_t stream) {
  if (n * c == 0) return cudaSuccess;
  GatherRows<<<BlocksFor(n * c), kThreads, 0, stream>>>(table, table_dtype, rows, drawn, n, c, out);
  return cudaGetLastError();
}

cudaError_t LaunchFillRows(const float* bias, std::int64_t n, std::int64_t c, float* out,
                           cudaStream_t stream) {
  if (n * c == 0) return cudaSuccess;
  FillRows<<<BlocksFor(n * c), kThreads, 0, stream>>>(bias, n, c, out);
  return cudaGetLastError();
}

}  // namespace thresher
