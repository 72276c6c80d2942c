// What a warp of decode has summed, and how the sums of a row's ranges of keys become one: the same
// operations in the same order whether they meet in registers or in memory.
#pragma once

#include <type_traits>

#include "kernels/cuda/attention/all/config.h"
#include "kernels/cuda/attention/all/launch.h"
#include "kernels/cuda/attention/all/matrix_units.cuh"
#include "kernels/cuda/device_math.cuh"

namespace thresher {

// What a warp has summed: lane 4 g + t has rows g and g + 8, of 8 columns the two from 2 t.
template <int kDim>
struct DecodeSums {
  float out[kDim / 8][4] = {};
  float largest[2] = {-INFINITY, -INFINITY};
  float total[2] = {0, 0};  // of this lane's keys alone
};

// A head's running merge of results: what Fold makes of them in order of keys. Written out, so that
// the compiler contracts nothing, and every place that folds rounds alike.
struct FoldWeights {
  float largest, of_sum, of_next;
  __device__ float Fold(float sum, float next) const {
    return __fmaf_rn(sum, of_sum, __fmul_rn(next, of_next));
  }
};

__device__ inline FoldWeights WeightsOf(float sum_largest, float next_largest, float factor) {
  FoldWeights weights;
  weights.largest = fmaxf(sum_largest, next_largest);
  weights.of_sum = Exp2(__fmul_rn(sum_largest - weights.largest, factor));
  weights.of_next = Exp2(__fmul_rn(next_largest - weights.largest, factor));
  return weights;
}

// Adds the next range's sums.
template <int kDim>
__device__ inline void FoldRange(const DecodeSums<kDim>& next, float factor,
                                 DecodeSums<kDim>& sums) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const FoldWeights weights = WeightsOf(sums.largest[half], next.largest[half], factor);
    sums.largest[half] = weights.largest;
    sums.total[half] = weights.Fold(sums.total[half], next.total[half]);
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) {
#pragma unroll
      for (int j = 2 * half; j < 2 * half + 2; ++j) {
        sums.out[i][j] = weights.Fold(sums.out[i][j], next.out[i][j]);
      }
    }
  }
}

// Heads that MergeResults takes at a time. Twice as many would have their loads in flight at once,
// but what they hold in registers is then spilled in the loop over keys, which costs a twentieth
// there.
constexpr int HeadsOfFan(int fan) { return 16 / fan; }

// Merges `count` partial results, at most kFan, of up to HeadsOfFan heads, in order of keys:
// first_slot, first_slot + slot_step, … `first` is the first slot's of the first head. Lane kFan h
// + i holds the maximum and the total of result i for head h, and of every head's sums kDim / 32
// neighbours. All loads are in flight at once, as nothing else hides their latency. `take` gets
// (head, its sums, their maximum, their total).
template <int kDim, int kFan, typename Take>
__device__ inline void MergeResults(const AttentionLaunch& a, const float* first, int slot_step,
                                    int count, int num_heads, float factor, const Take& take) {
  constexpr int kHeads = HeadsOfFan(kFan);
  constexpr int kPerLane = kDim / 32;
  constexpr int kStride = PartialStride(kDim);
  const int lane = threadIdx.x;
  const std::int64_t step = std::int64_t{slot_step} * a.num_heads * kStride;
  float2 of_slot = {0, 0};
  if (lane % kFan < count && lane / kFan < num_heads) {
    of_slot = __ldcg(
        reinterpret_cast<const float2*>(first + lane % kFan * step + lane / kFan * kStride + kDim));
  }
  float part[kHeads][kFan][kPerLane];
#pragma unroll
  for (int head = 0; head < kHeads; ++head) {
#pragma unroll
    for (int slot = 0; slot < kFan; ++slot) {
      const float* from = first + slot * step + head * kStride + lane * kPerLane;
      const bool valid = slot < count && head < num_heads;
#pragma unroll
      for (int j = 0; j < kPerLane; j += 2) {
        float2 pair = {0, 0};
        if (valid) pair = __ldcg(reinterpret_cast<const float2*>(from + j));
        part[head][slot][j] = pair.x;
        part[head][slot][j + 1] = pair.y;
      }
    }
  }
#pragma unroll
  for (int head = 0; head < kHeads; ++head) {
    if (head >= num_heads) break;
    float largest = __shfl_sync(kAllLanes, of_slot.x, kFan * head);
    float total = __shfl_sync(kAllLanes, of_slot.y, kFan * head);
#pragma unroll
    for (int slot = 1; slot < kFan; ++slot) {
      const float next_largest = __shfl_sync(kAllLanes, of_slot.x, kFan * head + slot);
      const float next_total = __shfl_sync(kAllLanes, of_slot.y, kFan * head + slot);
      if (slot >= count) continue;
      const FoldWeights weights = WeightsOf(largest, next_largest, factor);
      largest = weights.largest;
      total = weights.Fold(total, next_total);
#pragma unroll
      for (int j = 0; j < kPerLane; ++j) {
        part[head][0][j] = weights.Fold(part[head][0][j], part[head][slot][j]);
      }
    }
    take(head, part[head][0], largest, total);
  }
}

// Counts a warp that has written its results; true in the last of `count` warps, which sees what
// the others wrote and leaves the counter as it was.
__device__ inline bool IsLastOf(int count, std::int32_t* counter) {
  __threadfence();
  __syncwarp();
  int finished = 0;
  if (threadIdx.x == 0) finished = atomicAdd(counter, 1) + 1;
  if (__shfl_sync(kAllLanes, finished, 0) < count) return false;
  __threadfence();
  if (threadIdx.x == 0) *counter = 0;  // for the next layer
  return true;
}

// Merges what the row's units have written, as far as this one is the last to have: the ranges of
// its four, unless it has all of them itself, and then the fours.
template <int kDim>
__device__ inline void MergeRanges(const AttentionLaunch& a, const DecodeItem& item, int first_head,
                                   int num_heads, float factor, std::int64_t at) {
  constexpr int kPerLane = kDim / 32;
  constexpr int kStride = PartialStride(kDim);
  const int lane = threadIdx.x;
  const int first_slot = a.merge_start[item.merge];
  const int num_slots = a.merge_start[item.merge + 1] - first_slot;
  const int num_fours = (num_slots + kMergeFour - 1) / kMergeFour;
  const int four = (item.partial - first_slot) / kMergeFour;
  const int of_four = min(kMergeFour, num_slots - four * kMergeFour);
  std::int32_t* counters =
      a.counters + (std::int64_t{item.merge} * gridDim.y + blockIdx.y) * kMergeCounters;
  const auto write_out = [&](int head, const float(&sum)[kPerLane], float whole) {
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      StoreAs(a.out_dtype, a.out, at + head * kDim + lane * kPerLane + j, sum[j] / whole);
    }
  };

  if (item.num_keys <= item.split_keys && of_four > 1) {
    if (!IsLastOf(of_four, counters + four)) return;
    float* to = a.partials +
                (std::int64_t{first_slot + four * kMergeFour} * a.num_heads + first_head) * kStride;
    for (int head = 0; head < num_heads; head += HeadsOfFan(kMergeFour)) {
      MergeResults<kDim, kMergeFour>(
          a, to + head * kStride, 1, of_four, num_heads - head, factor,
          [&](int i, const float(&sum)[kPerLane], float largest, float whole) {
            if (num_fours == 1) return write_out(head + i, sum, whole);
            // The four's first slot, which this warp alone has left to read.
            float* slot = to + (head + i) * kStride;
#pragma unroll
            for (int j = 0; j < kPerLane; j += 2) {
              *reinterpret_cast<float2*>(slot + lane * kPerLane + j) = {sum[j], sum[j + 1]};
            }
            if (lane == 0) *reinterpret_cast<float2*>(slot + kDim) = {largest, whole};
          });
    }
  }
  if (num_fours == 1 || !IsLastOf(num_fours, counters + kMaxFours)) return;
  const float* first = a.partials + (std::int64_t{first_slot} * a.num_heads + first_head) * kStride;
  const auto merge_fours = [&](auto fan) {
    for (int head = 0; head < num_heads; head += HeadsOfFan(fan.value)) {
      MergeResults<kDim, fan.value>(a, first + head * kStride, kMergeFour, num_fours,
                                    num_heads - head, factor,
                                    [&](int i, const float(&sum)[kPerLane], float, float whole) {
                                      write_out(head + i, sum, whole);
                                    });
    }
  };
  if (num_fours <= kMaxFours / 2) {
    merge_fours(std::integral_constant<int, kMaxFours / 2>());
  } else {
    merge_fours(std::integral_constant<int, kMaxFours>());
  }
}

}  // namespace thresher
