#include "kernels/cuda/device_math.cuh"
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
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int num_heads = a.num_heads + 2 * a.num_kv_heads;
  const std::int64_t unit = std::int64_t{blockIdx.x} * kWarps + warp;
  if (unit >= std::int64_t{a.num_rows} * num_heads) return;
  const int row = static_cast<int>(unit / num_heads), index = static_cast<int>(unit % num_heads);
  const float* in = a.qkv + unit * a.head_dim;
  const std::int64_t slot = a.slot_mapping[row];
  const bool is_query = index < a.num_heads;
  if (!is_query && slot < 0) return;
  if (index >= a.num_heads + a.num_kv_heads) {
    const std::int64_t to = SlotElement(a, slot, index - a.num_heads - a.num_kv_heads);
    for (int i = lane; i < a.head_dim; i += 32) StoreAs(a.kv_dtype, a.v_cache, to + i, in[i]);
    return;
  }
  float x[kPerLane];
  float squares = 0;
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) {
    const int i = lane + 32 * j;
    x[j] = i < a.head_dim ? in[i] : 0.0f;
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
  const DType dtype = is_query ? DType::kF32 : a.kv_dtype;
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

}  // namespace

cudaError_t LaunchRotateAndAppend(const RotateAndAppendLaunch& arguments, cudaStream_t stream) {
  const RotateAndAppendLaunch& a = arguments;
  const std::int64_t units = std::int64_t{a.num_rows} * (a.num_heads + 2 * a.num_kv_heads);
  if (units == 0) return cudaSuccess;
  RotateHeads<<<static_cast<unsigned>((units + kWarps - 1) / kWarps), 32 * kWarps, 0, stream>>>(a);
  if (a.k_sums != nullptr || a.v_sums != nullptr) {
    AddToSums<<<2 * a.num_kv_heads, a.head_dim, 0, stream>>>(a);
  }
  return cudaGetLastError();
}

}  // namespace thresher
