// Attention in f32 for caches and head sizes that the matrix units do not take, and for full
// precision: a warp a query and head, key after key. Not for speed.
#include "kernels/cuda/attention/all/launch.h"
#include "kernels/cuda/device_math.cuh"

namespace thresher {
namespace {

constexpr int kWarps = 4;
constexpr int kPerLane = 256 / 32;

// Lane l has elements l, l + 32, … of the head.
__global__ void __launch_bounds__(32 * kWarps) PlainRows(AttentionLaunch a) {
  const int lane = threadIdx.x % 32;
  const std::int64_t unit = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (unit >= std::int64_t{a.num_items} * a.num_heads) return;
  const AttentionWorkItem item = a.items[unit / a.num_heads];
  if (item.num_keys == 0) return;  // fills the grid up
  const int head = static_cast<int>(unit % a.num_heads);
  const int group_size = a.num_heads / a.num_kv_heads, kv_head = head / group_size;
  const SequenceLaunch sequence = a.sequences[item.sequence];
  const std::int64_t row = sequence.first_row + item.first_row / group_size;
  const std::int32_t* table = a.block_tables + sequence.block_table_start;
  const std::int64_t at = (row * a.num_heads + head) * a.head_dim;
  float q[kPerLane], sum[kPerLane];
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) {
    const int i = lane + 32 * j;
    q[j] = i < a.head_dim ? LoadAs(a.q_dtype, a.q, at + i) : 0.0f;
    sum[j] = 0;
  }
  float largest = -INFINITY, total = 0;
  for (int key = 0; key < item.num_keys; ++key) {
    const std::int64_t block = table[key / a.block_size];
    const std::int64_t from =
        ((block * a.num_kv_heads + kv_head) * a.block_size + key % a.block_size) * a.head_dim;
    float dot = 0;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      const int i = lane + 32 * j;
      if (i < a.head_dim) dot += q[j] * LoadAs(a.kv_dtype, a.k, from + i);
    }
    const float score = WarpSum(dot) * a.scale;
    if (score > largest) {
      const float factor = expf(largest - score);
      total *= factor;
#pragma unroll
      for (int j = 0; j < kPerLane; ++j) sum[j] *= factor;
      largest = score;
    }
    const float weight = expf(score - largest);
    total += weight;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      const int i = lane + 32 * j;
      if (i < a.head_dim) sum[j] += weight * LoadAs(a.kv_dtype, a.v, from + i);
    }
  }
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) {
    const int i = lane + 32 * j;
    if (i < a.head_dim) StoreAs(a.out_dtype, a.out, at + i, sum[j] / total);
  }
}

}  // namespace

cudaError_t LaunchPlainRows(const AttentionLaunch& a, cudaStream_t stream) {
  const std::int64_t units = std::int64_t{a.num_items} * a.num_heads;
  if (units == 0) return cudaSuccess;
  PlainRows<<<static_cast<unsigned>((units + kWarps - 1) / kWarps), 32 * kWarps, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace thresher
