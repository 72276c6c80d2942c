// What precedes and follows the pass over a row's keys, over a vector type: sums of keys and
// values, thresholds that the row itself sets, and the merge of partial results into an output.
#pragma once

#if defined(__AVX2__)

#include <cstdint>
#include <cstring>

#include "kernels/cpu/attention_decode_body.h"
#include "kernels/cpu/attention_threshold_unit.h"

namespace thresher {
// Unnamed on purpose, see simd_avx2.h.
namespace {

template <typename V>
inline float FirstLane(typename V::F x) {
  float lanes[V::kLanes];
  V::Store(lanes, x);
  return lanes[0];
}

// exp(x).
template <typename V>
inline typename V::F ExpOf(typename V::F x) {
  return Exp2<V>(V::Mul(x, V::Set(kLog2E)));
}

// Calls body<kType>() for the cache's element type.
template <typename Body>
inline void ForKvType(DType type, const Body& body) {
  if (type == DType::kF32) {
    body.template operator()<DType::kF32>();
  } else if (type == DType::kBF16) {
    body.template operator()<DType::kBF16>();
  } else {
    body.template operator()<DType::kF16>();
  }
}

// to [head_dim], natural order := from [PaddedDim], in the order of LoadOfPair.
template <typename V, DType kType>
inline void ToNaturalOrder(const float* from, int head_dim, float* to) {
  int i = 0;
  if constexpr (kType == DType::kBF16) {
    for (; i < PairedElements<V>(head_dim); i += 2 * V::kLanes) {
      for (int j = 0; j < V::kLanes; ++j) {
        to[i + 2 * j] = from[i + j];
        to[i + 2 * j + 1] = from[i + V::kLanes + j];
      }
    }
  }
  for (; i < head_dim; ++i) to[i] = from[i];
}

inline const ThresholdPartial& PartialOf(const ThresholdMerge& merge, int row, int index) {
  return *reinterpret_cast<const ThresholdPartial*>(
      merge.partials + index * merge.stride + row * ThresholdPartialFloats(merge.rows.head_dim));
}

// The sums of a row's partial results; its values lie apart.
template <typename V>
inline ThresholdPartial MergeStates(const ThresholdMerge& merge, int row) {
  ThresholdPartial sum = PartialOf(merge, row, 0);
  for (int i = 1; i < merge.num_partials; ++i) {
    const ThresholdPartial& next = PartialOf(merge, row, i);
    if (next.largest > sum.largest) {
      sum.largest = next.largest;
      sum.argmax = next.argmax;
    }
    sum.survivors += next.survivors;
    sum.value_rows += next.value_rows;
  }
  sum.kept = sum.dropped = 0;
  for (int i = 0; i < merge.num_partials; ++i) {
    const ThresholdPartial& next = PartialOf(merge, row, i);
    const float factor = FirstLane<V>(ExpOf<V>(V::Set(next.largest - sum.largest)));
    sum.kept += next.kept * factor;
    sum.dropped += next.dropped * factor;
  }
  return sum;
}

// sum [PaddedDim], the order of LoadOfPair := Σ over partial results of their values, each times
// exp(largest − its own) if `weighted`. Values start `offset` floats after the header.
template <typename V>
inline void MergeValues(const ThresholdMerge& merge, int row, float largest, bool weighted,
                        int offset, float* sum) {
  const int padded = PaddedDim(merge.rows.head_dim);
  std::memset(sum, 0, sizeof(float) * padded);
  for (int i = 0; i < merge.num_partials; ++i) {
    const float* values = merge.partials + i * merge.stride +
                          row * ThresholdPartialFloats(merge.rows.head_dim) + kThresholdHeader +
                          offset;
    typename V::F factor = V::Set(1);
    if (weighted) factor = ExpOf<V>(V::Set(PartialOf(merge, row, i).largest - largest));
    for (int d = 0; d < padded; d += V::kLanes) {
      V::Store(sum + d, V::Fma(V::Load(values + d), factor, V::Load(sum + d)));
    }
  }
}

// The estimate of Σ exp(s − largest) over a row's `num_dropped` keys that are left out.
template <typename V>
inline float DroppedEstimate(const ThresholdMerge& merge, int row, const ThresholdPartial& state,
                             int num_dropped) {
  if (num_dropped == 0) return 0;
  switch (merge.denominator) {
    case DroppedDenominator::kNone:
      return 0;
    case DroppedDenominator::kExact:
      return state.dropped;
    case DroppedDenominator::kExponential: {
      // A dropped score is at most the threshold and at most the largest score.
      const float below = merge.thresholds[row] - state.largest;
      const float most = FirstLane<V>(ExpOf<V>(V::Set(below < 0 ? below : 0)));
      return merge.gamma * static_cast<float>(num_dropped) * most;
    }
    case DroppedDenominator::kCalibrated:
      return merge.calibrated[row];
  }
  return 0;
}

// values [head_dim] := the value row at `position`.
template <typename V, DType kType>
inline void LoadValueRow(const AttentionUnit& rows, int position, float* values) {
  ForRuns(rows, rows.v, position, 1, [&](int, int, const std::byte* bytes) {
    ForVectors<V>(
        rows.head_dim, [&](std::int64_t i) { V::Store(values + i, LoadAs<V, kType>(bytes, i)); },
        [&](std::int64_t i, int n) {
          V::StoreFirst(values + i, n, LoadFirstAs<V, kType>(bytes, i, n));
        });
  });
}

// Scratch of a merge, each [PaddedDim].
struct MergeScratch {
  MergeScratch(float* memory, int head_dim)
      : merged(memory),
        output(merged + PaddedDim(head_dim)),
        kept_sum(output + PaddedDim(head_dim)) {}
  float* merged;    // in the order of LoadOfPair
  float* output;    // in natural order, as is
  float* kept_sum;  // the sum of the kept values
};

// output += mass · the mean of V that stands in for the dropped values.
template <typename V>
inline void AddMean(const ThresholdMerge& merge, const MergeScratch& s, int num_dropped,
                    float mass) {
  const bool all = merge.value_mean == ValueMean::kAll;
  const float count = static_cast<float>(all ? merge.rows.num_keys : num_dropped);
  const float share = mass / count;
  for (int i = 0; i < merge.rows.head_dim; ++i) {
    const float sum = all ? merge.value_sum[i] : merge.value_sum[i] - s.kept_sum[i];
    s.output[i] += share * sum;
  }
}

// Keeps the row's largest score alone, where nothing was kept and nothing stands in for it.
template <typename V, DType kType>
inline void KeepArgmax(const ThresholdMerge& merge, int row, const MergeScratch& s,
                       ThresholdPartial& state) {
  LoadValueRow<V, kType>(merge.rows, static_cast<int>(state.argmax), s.output);
  state.survivors = 1;
  state.kept = 1;
  state.dropped -= 1;
  const float rest = DroppedEstimate<V>(merge, row, state, merge.rows.num_keys - 1);
  WriteRow<V>(merge.rows, merge.rows.first_row + row, s.output, state.kept + rest);
}

// Value rows that heads below `row` do not read already.
inline bool IsNewArgmax(const ThresholdOutcome* outcomes, int row, int position) {
  for (int other = 0; other < row; ++other) {
    if (outcomes[other].argmax == position) return false;
  }
  return true;
}

// One row's output; returns how many value rows it reads that no row has kept.
template <typename V, DType kType>
inline int MergeRow(const ThresholdMerge& merge, int row, int group_rows, const MergeScratch& s,
                    ThresholdOutcome* outcomes) {
  const int head_dim = merge.rows.head_dim, padded = PaddedDim(head_dim);
  ThresholdPartial state = MergeStates<V>(merge, row);
  state.kept += 0 * state.dropped;  // a NaN anywhere in the row's scores makes the row NaN
  int more_rows = 0;
  ThresholdOutcome& outcome = outcomes[row];
  outcome.argmax = -1;
  if (merge.value_mean == ValueMean::kOff && state.kept == 0) {
    outcome.argmax = static_cast<int>(state.argmax);
    more_rows = IsNewArgmax(outcomes, row, outcome.argmax) ? 1 : 0;
    KeepArgmax<V, kType>(merge, row, s, state);
  } else {
    const int num_kept = merge.promotes ? group_rows : static_cast<int>(state.survivors);
    const int num_dropped = merge.rows.num_keys - num_kept;
    MergeValues<V>(merge, row, state.largest, true, 0, s.merged);
    ToNaturalOrder<V, kType>(s.merged, head_dim, s.output);
    const float rest = DroppedEstimate<V>(merge, row, state, num_dropped);
    float weight = state.kept + rest;
    if (merge.value_mean == ValueMean::kDropped && (!merge.promotes || row == 0)) {
      MergeValues<V>(merge, row, 0, false, padded, s.merged);
      ToNaturalOrder<V, kType>(s.merged, head_dim, s.kept_sum);
    }
    if (state.kept == 0) {
      // Nothing but the mean: whatever the estimate of its mass.
      AddMean<V>(merge, s, num_dropped, 1);
      weight = 1;
    } else if (merge.value_mean != ValueMean::kOff && num_dropped != 0) {
      AddMean<V>(merge, s, num_dropped, rest);
    }
    WriteRow<V>(merge.rows, merge.rows.first_row + row, s.output, weight);
  }
  outcome.survivors = static_cast<int>(state.survivors);
  outcome.dropped_mass = state.dropped / (state.kept + state.dropped);
  return more_rows;
}

template <typename V>
int MergeThreshold(const ThresholdMerge& merge, float* scratch, ThresholdOutcome* outcomes) {
  const MergeScratch s(scratch, merge.rows.head_dim);
  int value_rows = static_cast<int>(MergeStates<V>(merge, 0).value_rows);
  const int group_rows = value_rows;
  ForKvType(merge.rows.kv_dtype, [&]<DType kType>() {
    for (int row = 0; row < merge.rows.num_rows; ++row) {
      value_rows += MergeRow<V, kType>(merge, row, group_rows, s, outcomes);
    }
  });
  return value_rows;
}

template <typename V>
void AddLogSum(const ThresholdMerge& merge, float* thresholds) {
  for (int row = 0; row < merge.rows.num_rows; ++row) {
    const ThresholdPartial state = MergeStates<V>(merge, row);
    thresholds[row] += state.largest + __builtin_logf(state.kept);
  }
}

// A block's sum and that of the blocks after it are small and lie far apart.
inline constexpr int kBlocksAhead = 8;

template <typename V>
void SumKeys(const AttentionUnit& rows, const std::byte* base, const BlockSums& blocks,
             float* sum) {
  const int head_dim = rows.head_dim;
  const int num_whole = blocks.holds_last ? (rows.num_keys + rows.block_size - 1) / rows.block_size
                                          : rows.num_keys / rows.block_size;
  std::memset(sum, 0, sizeof(float) * head_dim);
  for (int block = 0; block < num_whole; ++block) {
    const int ahead = Smaller(block + kBlocksAhead, num_whole - 1);
    PrefetchRow(reinterpret_cast<const std::byte*>(blocks.sums +
                                                   rows.block_table[ahead] * blocks.block_floats),
                head_dim * std::int64_t{sizeof(float)});
    AddRow<V, DType::kF32>(blocks.sums + rows.block_table[block] * blocks.block_floats, head_dim,
                           sum);
  }
  const int first = num_whole * rows.block_size;
  if (first >= rows.num_keys) return;
  float last[256];
  const std::int64_t row_bytes = head_dim * SizeOf(rows.kv_dtype);
  ForRuns(rows, base, first, rows.num_keys - first, [&](int, int length, const std::byte* bytes) {
    ForKvType(rows.kv_dtype, [&]<DType kType>() {
      std::memset(last, 0, sizeof(float) * head_dim);
      for (int i = 0; i < length; ++i) AddRow<V, kType>(bytes + i * row_bytes, head_dim, last);
    });
  });
  AddRow<V, DType::kF32>(last, head_dim, sum);
}

template <typename V>
void AddMeanScore(const AttentionUnit& rows, const float* key_sum, float* thresholds) {
  using F = typename V::F;
  const F scale = V::Set(rows.scale);
  for (int row = 0; row < rows.num_rows; ++row) {
    const float* q = rows.q + RowOffset(rows, rows.first_row + row);
    F sum = V::Zero();
    ForVectors<V>(
        rows.head_dim,
        [&](std::int64_t i) {
          sum = V::Fma(V::Mul(V::Load(q + i), scale), V::Load(key_sum + i), sum);
        },
        [&](std::int64_t i, int n) {
          sum = V::Fma(V::Mul(V::LoadFirst(q + i, n), scale), V::LoadFirst(key_sum + i, n), sum);
        });
    thresholds[row] += V::SumOf(sum) / static_cast<float>(rows.num_keys);
  }
}

}  // namespace
}  // namespace thresher

#endif
