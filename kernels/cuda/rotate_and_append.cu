#include "kernels/cuda/device_math.cuh"
#include "kernels/cuda/overlapped_launch.cuh"
#include "kernels/cuda/rotate_and_append.h"

namespace thresher {
namespace {

constexpr int kWarps = 4;
constexpr int kMaxHeadDim = 256;
constexpr int kPerLane = kMaxHeadDim / 32;

// First element of a slot's row of one KV head in the cache.
__device__ std::int64_t SlotElement(const RotateAndAppendLaunch& a, std::int64_t slot, int head) {
  const std::int64_t block = slot / a.block_size, offset = slot % a.block_size;
  return ((block * a.num_kv_heads + head) * a.block_size + offset) * a.head_dim;
}

// A warp a head of a row: the query heads, then those of k, then those of v, as they lie in qkv.
// Lane l has elements l, l + 32, …; a rotation's partner comes through shared memory.
__global__ void __launch_bounds__(32 * kWarps) RotateHeads(RotateAndAppendLaunch a) {
  __shared__ float head[kWarps][kMaxHeadDim];
  LetLaterKernelsStart();
  WaitForEarlierKernels();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int num_heads = a.num_heads + 2 * a.num_kv_heads;
  const std::int64_t unit = std::int64_t{blockIdx.x} * kWarps + warp;
  if (unit >= std::int64_t{a.num_rows} * num_heads) return;
  const int row = static_cast<int>(unit / num_heads), index = static_cast<int>(unit % num_heads);
  const std::int64_t in = unit * a.head_dim;
  const std::int64_t slot = a.slot_mapping[row];
  const bool is_query = index < a.num_heads;
  if (!is_query && slot < 0) return;
  if (index >= a.num_heads + a.num_kv_heads) {
    const std::int64_t to = SlotElement(a, slot, index - a.num_heads - a.num_kv_heads);
    for (int i = lane; i < a.head_dim; i += 32) {
      StoreAs(a.kv_dtype, a.v_cache, to + i, LoadAs(a.qkv_dtype, a.qkv, in + i));
    }
    return;
  }
  float x[kPerLane];
  float squares = 0;
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) {
    const int i = lane + 32 * j;
    x[j] = i < a.head_dim ? LoadAs(a.qkv_dtype, a.qkv, in + i) : 0.0f;
    squares += x[j] * x[j];
  }
  const float* weight = is_query ? a.q_weight : a.k_weight;
  if (weight != nullptr) {
    const float mean = WarpSum(squares) / static_cast<float>(a.head_dim);
    const float factor = 1.0f / sqrtf(mean + a.epsilon);
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      const int i = lane + 32 * j;
      if (i < a.head_dim) x[j] *= factor * weight[i];
    }
  }
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) {
    const int i = lane + 32 * j;
    if (i < a.head_dim) head[warp][i] = x[j];
  }
  __syncwarp();
  const int half = a.rotary_dim / 2;
  const float* table = a.cos_sin + std::int64_t{a.positions[row]} * a.rotary_dim;
  void* out = is_query ? a.q : a.k_cache;
  const DType dtype = is_query ? a.q_dtype : a.kv_dtype;
  const std::int64_t to = is_query ? (std::int64_t{row} * a.num_heads + index) * a.head_dim
                                   : SlotElement(a, slot, index - a.num_heads);
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) {
    const int i = lane + 32 * j;
    if (i >= a.head_dim) continue;
    float y = x[j];
    if (i < half) {
      y = x[j] * table[i] - head[warp][i + half] * table[i + half];
    } else if (i < a.rotary_dim) {
      y = x[j] * table[i - half] + head[warp][i - half] * table[i];
    }
    StoreAs(dtype, out, to + i, y);
  }
}

// The same for heads that rotate whole: kDim / 16 lanes a head, lane l with elements 8 l to 8 l + 7
// and those kDim / 2 further on, which are their partners.
template <int kDim>
__global__ void __launch_bounds__(32 * kWarps) RotateWholeHeads(RotateAndAppendLaunch a) {
  constexpr int kLanes = kDim / 16, kHalf = kDim / 2;
  LetLaterKernelsStart();
  WaitForEarlierKernels();
  const int lane = threadIdx.x % kLanes;
  const int num_heads = a.num_heads + 2 * a.num_kv_heads;
  const std::int64_t unit = (std::int64_t{blockIdx.x} * 32 * kWarps + threadIdx.x) / kLanes;
  const bool is_there = unit < std::int64_t{a.num_rows} * num_heads;
  const int row = is_there ? static_cast<int>(unit / num_heads) : 0;
  const int index = is_there ? static_cast<int>(unit % num_heads) : 0;
  const bool is_query = index < a.num_heads, is_value = index >= a.num_heads + a.num_kv_heads;
  const std::int64_t slot = a.slot_mapping[row];
  // Lanes without work stay for the sums of their warp.
  const bool works = is_there && (is_query || slot >= 0);
  float x[2][8] = {};
  if (works) {
    LoadEightAs(a.qkv_dtype, a.qkv, unit * kDim + 8 * lane, x[0]);
    LoadEightAs(a.qkv_dtype, a.qkv, unit * kDim + kHalf + 8 * lane, x[1]);
  }
  const float* weight = is_query ? a.q_weight : a.k_weight;
  if (a.q_weight != nullptr) {
    float squares = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) squares += x[0][i] * x[0][i] + x[1][i] * x[1][i];
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
      squares += __shfl_xor_sync(kAllLanes, squares, offset);
    }
    if (!is_value) {
      const float factor = 1.0f / sqrtf(squares / kDim + a.epsilon);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        x[0][i] *= factor * weight[8 * lane + i];
        x[1][i] *= factor * weight[kHalf + 8 * lane + i];
      }
    }
  }
  if (!works) return;
  if (!is_value) {
    float cosine[8], sine[8];
    const std::int64_t at = std::int64_t{a.positions[row]} * kDim + 8 * lane;
    LoadEightAs(DType::kF32, a.cos_sin, at, cosine);
    LoadEightAs(DType::kF32, a.cos_sin, at + kHalf, sine);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float low = x[0][i], high = x[1][i];
      x[0][i] = low * cosine[i] - high * sine[i];
      x[1][i] = high * cosine[i] + low * sine[i];
    }
  }
  void* out = is_query ? a.q : is_value ? a.v_cache : a.k_cache;
  const DType dtype = is_query ? a.q_dtype : a.kv_dtype;
  const std::int64_t to = is_query ? (std::int64_t{row} * a.num_heads + index) * kDim
                                   : SlotElement(a, slot, (index - a.num_heads) % a.num_kv_heads);
  StoreEightAs(dtype, out, to + 8 * lane, x[0]);
  StoreEightAs(dtype, out, to + kHalf + 8 * lane, x[1]);
}

// A block a KV head of K or of V, a thread an element, rows in order: a sum's bits depend neither
// on the grid nor on how the rows were cut into calls. A block's first slot starts its sum anew.
__global__ void AddToSums(RotateAndAppendLaunch a) {
  const int kv_head = static_cast<int>(blockIdx.x) % a.num_kv_heads;
  const bool of_k = static_cast<int>(blockIdx.x) < a.num_kv_heads;
  float* sums = of_k ? a.k_sums : a.v_sums;
  const void* cache = of_k ? a.k_cache : a.v_cache;
  if (sums == nullptr) return;
  for (int row = 0; row < a.num_rows; ++row) {
    const std::int64_t slot = a.slot_mapping[row];
    if (slot < 0) continue;
    const std::int64_t from = SlotElement(a, slot, kv_head) + threadIdx.x;
    float* sum = sums + (slot / a.block_size * a.num_kv_heads + kv_head) * a.head_dim + threadIdx.x;
    const float before = slot % a.block_size == 0 ? 0.0f : *sum;
    *sum = before + LoadAs(a.kv_dtype, cache, from);
  }
}

// Whether a lane may read and write eight neighbours at once.
bool RotatesWhole(const RotateAndAppendLaunch& a) {
  const auto is_aligned = [](const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
  };
  return a.rotary_dim == a.head_dim && is_aligned(a.qkv) && is_aligned(a.q) &&
         is_aligned(a.cos_sin) && is_aligned(a.k_cache) && is_aligned(a.v_cache);
}

}  // namespace

cudaError_t LaunchRotateAndAppend(const RotateAndAppendLaunch& arguments, cudaStream_t stream) {
  const RotateAndAppendLaunch& a = arguments;
  const std::int64_t units = std::int64_t{a.num_rows} * (a.num_heads + 2 * a.num_kv_heads);
  if (units == 0) return cudaSuccess;
  const auto launch = [&](void (*kernel)(RotateAndAppendLaunch), int units_of_block) {
    const dim3 grid(static_cast<unsigned>((units + units_of_block - 1) / units_of_block));
    return LaunchOverlapped(kernel, {.grid = grid, .block = dim3(32 * kWarps)}, stream, a);
  };
  cudaError_t error = cudaSuccess;
  if (RotatesWhole(a) && a.head_dim == 64) {
    error = launch(RotateWholeHeads<64>, 8 * kWarps);
  } else if (RotatesWhole(a) && a.head_dim == 128) {
    error = launch(RotateWholeHeads<128>, 4 * kWarps);
  } else {
    error = launch(RotateHeads, kWarps);
  }
  if (error != cudaSuccess) return error;
  if (a.k_sums != nullptr || a.v_sums != nullptr) {
    AddToSums<<<2 * a.num_kv_heads, a.head_dim, 0, stream>>>(a);
  }
  return cudaGetLastError();
}

}  // namespace thresher
