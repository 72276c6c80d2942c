#include <algorithm>

#include "kernels/cuda/device_math.cuh"
#include "kernels/cuda/overlapped_launch.cuh"
#include "kernels/cuda/row_kernels.h"

namespace thresher {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 1 << 16;

int BlocksFor(std::int64_t elements) {
  return static_cast<int>(std::min(kMaxBlocks, (elements + kThreads - 1) / kThreads));
}

// Numbers [first, first + 8) of an array of which `left` are there; zeros for the rest. `whole`:
// the array is aligned, first a multiple of eight and all eight are there.
__device__ inline void LoadChunk(DType dtype, const void* in, std::int64_t first, std::int64_t left,
                                 bool whole, float (&x)[8]) {
  if (whole) return LoadEightAs(dtype, in, first, x);
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = i < left ? LoadAs(dtype, in, first + i) : 0.0f;
}

__device__ inline void StoreChunk(DType dtype, void* out, std::int64_t first, std::int64_t left,
                                  bool whole, const float (&x)[8]) {
  if (whole) return StoreEightAs(dtype, out, first, x);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i < left) StoreAs(dtype, out, first + i, x[i]);
  }
}

bool IsAligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

// Rows of numbers, each cut into chunks of eight.
struct NormLaunch {
  const void* x = nullptr;
  float* residual = nullptr;
  const float* weight = nullptr;
  void* out = nullptr;
  DType x_dtype = DType::kF32, out_dtype = DType::kF32;
  float epsilon = 0;
  bool whole = false;  // chunks are whole and aligned
  std::int64_t n = 0, c = 0;
};

// x + residual, or x, of a chunk; residual takes the sum.
__device__ inline void AddChunk(const NormLaunch& a, std::int64_t first, std::int64_t left,
                                float (&x)[8]) {
  LoadChunk(a.x_dtype, a.x, first, left, a.whole, x);
  if (a.residual == nullptr) return;
  float before[8];
  LoadChunk(DType::kF32, a.residual, first, left, a.whole, before);
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] += before[i];
  StoreChunk(DType::kF32, a.residual, first, left, a.whole, x);
}

// A row of blockDim.x threads, thread t with chunks t, t + blockDim.x, …, of which the first kHeld
// stay in registers; narrow rows are several to a block. A sum of squares is one of the width
// alone, wherever its row comes from, so that the fused form has the bits of the two ops.
constexpr int kHeld = 2;
constexpr int kMaxRowThreads = 1024;

__global__ void __launch_bounds__(kMaxRowThreads)
    RmsNormRows(const __grid_constant__ NormLaunch a) {
  __shared__ float partial[kMaxRowThreads / 32];
  LetLaterKernelsStart();
  WaitForEarlierKernels();
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= a.n) return;  // only of narrow rows, which do not meet
  const std::int64_t start = row * a.c, step = std::int64_t{blockDim.x} * 8;
  const std::int64_t mine = std::int64_t{threadIdx.x} * 8;
  float held[kHeld][8];
  float squares = 0;
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    const std::int64_t at = mine + j * step;
    if (at >= a.c) continue;
    AddChunk(a, start + at, a.c - at, held[j]);
#pragma unroll
    for (int i = 0; i < 8; ++i) squares += held[j][i] * held[j][i];
  }
  for (std::int64_t at = mine + kHeld * step; at < a.c; at += step) {
    float x[8];
    AddChunk(a, start + at, a.c - at, x);
#pragma unroll
    for (int i = 0; i < 8; ++i) squares += x[i] * x[i];
  }
  float sum = WarpSum(squares);
  if (blockDim.x > 32) {
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < static_cast<int>(blockDim.x) / 32; ++i) sum += partial[i];
  }
  const float factor = 1.0f / sqrtf(sum / static_cast<float>(a.c) + a.epsilon);
  const auto finish = [&](std::int64_t at, const float(&x)[8]) {
    float weight[8], y[8];
    LoadChunk(DType::kF32, a.weight, at, a.c - at, a.whole, weight);
#pragma unroll
    for (int i = 0; i < 8; ++i) y[i] = x[i] * factor * weight[i];
    StoreChunk(a.out_dtype, a.out, start + at, a.c - at, a.whole, y);
  };
#pragma unroll
  for (int j = 0; j < kHeld; ++j) {
    if (mine + j * step < a.c) finish(mine + j * step, held[j]);
  }
  for (std::int64_t at = mine + kHeld * step; at < a.c; at += step) {
    float x[8];
    if (a.residual != nullptr) {
      LoadChunk(DType::kF32, a.residual, start + at, a.c - at, a.whole, x);
    } else {
      LoadChunk(a.x_dtype, a.x, start + at, a.c - at, a.whole, x);
    }
    finish(at, x);
  }
}

// Grid: rows, then chunks of a row by kThreads.
__global__ void __launch_bounds__(kThreads)
    SiluMulRows(const void* gate_up, DType dtype, std::int64_t c, bool whole, DType out_dtype,
                void* out) {
  LetLaterKernelsStart();
  WaitForEarlierKernels();
  const std::int64_t at = (std::int64_t{blockIdx.y} * kThreads + threadIdx.x) * 8;
  if (at >= c) return;
  const std::int64_t row = blockIdx.x, first = row * 2 * c + at;
  float gate[8], up[8], y[8];
  LoadChunk(dtype, gate_up, first, c - at, whole, gate);
  LoadChunk(dtype, gate_up, first + c, c - at, whole, up);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    // Where exp(−gate) overflows the quotient is 0, as silu is to the last bit that counts.
    y[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
  }
  StoreChunk(out_dtype, out, row * c + at, c - at, whole, y);
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
    FillRows(const float* bias, std::int64_t n, std::int64_t c, DType dtype, void* out) {
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n * c; i += step) {
    StoreAs(dtype, out, i, bias[i % c]);
  }
}

}  // namespace

cudaError_t LaunchRmsNorm(const TensorView& x, float* residual, const float* weight, float epsilon,
                          const TensorView& out, cudaStream_t stream) {
  NormLaunch a;
  a.n = x.shape[0], a.c = x.shape[1];
  if (a.n == 0 || a.c == 0) return cudaSuccess;
  a.x = x.data, a.x_dtype = x.dtype;
  a.residual = residual;
  a.weight = weight;
  a.out = out.data, a.out_dtype = out.dtype;
  a.epsilon = epsilon;
  a.whole = a.c % 8 == 0 && IsAligned(x.data) && IsAligned(residual) && IsAligned(weight) &&
            IsAligned(out.data);
  const std::int64_t warps = std::min<std::int64_t>((a.c + 255) / 256, kMaxRowThreads / 32);
  const unsigned rows = warps == 1 ? 4 : 1;
  const dim3 block(static_cast<unsigned>(32 * warps), rows);
  const dim3 grid(static_cast<unsigned>((a.n + rows - 1) / rows));
  return LaunchOverlapped(RmsNormRows, {.grid = grid, .block = block}, stream, a);
}

cudaError_t LaunchSiluMul(const TensorView& gate_up, const TensorView& out, cudaStream_t stream) {
  const std::int64_t n = out.shape[0], c = out.shape[1];
  if (n * c == 0) return cudaSuccess;
  const bool whole = c % 8 == 0 && IsAligned(gate_up.data) && IsAligned(out.data);
  const dim3 grid(static_cast<unsigned>(n),
                  static_cast<unsigned>((c + 8 * kThreads - 1) / (8 * kThreads)));
  return LaunchOverlapped(SiluMulRows, {.grid = grid, .block = dim3(kThreads)}, stream,
                          gate_up.data, gate_up.dtype, c, whole, out.dtype, out.data);
}

cudaError_t LaunchGatherRows(const void* table, DType table_dtype, const std::int32_t* rows,
                             const std::int32_t* drawn, std::int64_t n, std::int64_t c, float* out,
                             cudaStream_t stream) {
  if (n * c == 0) return cudaSuccess;
  GatherRows<<<BlocksFor(n * c), kThreads, 0, stream>>>(table, table_dtype, rows, drawn, n, c, out);
  return cudaGetLastError();
}

cudaError_t LaunchFillRows(const float* bias, const TensorView& out, cudaStream_t stream) {
  const std::int64_t n = out.shape[0], c = out.shape[1];
  if (n * c == 0) return cudaSuccess;
  FillRows<<<BlocksFor(n * c), kThreads, 0, stream>>>(bias, n, c, out.dtype, out.data);
  return cudaGetLastError();
}

}  // namespace thresher
