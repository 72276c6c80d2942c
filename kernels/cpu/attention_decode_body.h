// Decode attention over a vector type: one query's heads of one KV head against a range of keys.
// Lanes run along head_dim; each key or value is loaded and widened once for all heads of a group
// of kGroupRows. Everything is f32 but what the cache holds.
#pragma once

#if defined(__AVX2__)

#include <cstring>

#include "kernels/cpu/attention_tile.h"

namespace thresher {
// Unnamed on purpose, see simd_avx2.h.
namespace {

// head_dim rounded up to whole vectors of 16.
inline int PaddedDim(int head_dim) { return (head_dim + 15) / 16 * 16; }

struct DecodeScratch {
  DecodeScratch(float* memory, int head_dim, int group_size)
      : query(memory),
        output(query + group_size * PaddedDim(head_dim)),
        score(output + group_size * PaddedDim(head_dim)),
        largest(score + group_size * kKeyTile),
        sum(largest + group_size) {}
  float* query;    // [group_size, PaddedDim], scale and log2(e) multiplied in, zero beyond head_dim
  float* output;   // [group_size, PaddedDim]
  float* score;    // [group_size, kKeyTile], then weights
  float* largest;  // [group_size], running maximum of the scores
  float* sum;      // [group_size], running sum of the weights
};

template <typename V, DType kType>
inline typename V::F LoadWhole(const std::byte* row, int i, int head_dim) {
  if (i + V::kLanes <= head_dim) return LoadAs<V, kType>(row, i);
  return LoadFirstAs<V, kType>(row, i, head_dim - i);
}

// score[head][key … key + 4) for kHeads heads; rows are those of the four keys. Rows past the last
// key of the unit lie in its last block; their scores are overwritten.
template <typename V, DType kType, int kHeads>
inline void ScoreFourKeys(const std::byte* rows, int head_dim, const float* query, float* score) {
  using F = typename V::F;
  const std::int64_t row_bytes = head_dim * SizeOf(kType);
  const int padded = PaddedDim(head_dim);
  F sum[kHeads][4];
#pragma GCC unroll 4
  for (int head = 0; head < kHeads; ++head) {
#pragma GCC unroll 4
    for (int key = 0; key < 4; ++key) sum[head][key] = V::Zero();
  }
  for (int i = 0; i < head_dim; i += V::kLanes) {
    F k[4];
#pragma GCC unroll 4
    for (int key = 0; key < 4; ++key) {
      k[key] = LoadWhole<V, kType>(rows + key * row_bytes, i, head_dim);
    }
#pragma GCC unroll 4
    for (int head = 0; head < kHeads; ++head) {
      const F q = V::Load(query + head * padded + i);
#pragma GCC unroll 4
      for (int key = 0; key < 4; ++key) sum[head][key] = V::Fma(q, k[key], sum[head][key]);
    }
  }
#pragma GCC unroll 4
  for (int head = 0; head < kHeads; ++head) {
    V::SumOf4(sum[head][0], sum[head][1], sum[head][2], sum[head][3], score + head * kKeyTile);
  }
}

// output[head][column …) += weight[head][key] · rows[key][column …) for kColumns vectors.
template <typename V, DType kType, int kHeads, int kColumns>
inline void AddValues(const std::byte* rows, int num_keys, int head_dim, int column,
                      const float* weight, float* output) {
  using F = typename V::F;
  const std::int64_t row_bytes = head_dim * SizeOf(kType);
  const int padded = PaddedDim(head_dim);
  F sum[kHeads][kColumns];
#pragma GCC unroll 4
  for (int head = 0; head < kHeads; ++head) {
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      sum[head][c] = V::Load(output + head * padded + column + c * V::kLanes);
    }
  }
  for (int key = 0; key < num_keys; ++key) {
    F value[kColumns];
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      value[c] = kColumns > 1 ? LoadAs<V, kType>(rows + key * row_bytes, column + c * V::kLanes)
                              : LoadWhole<V, kType>(rows + key * row_bytes, column, head_dim);
    }
#pragma GCC unroll 4
    for (int head = 0; head < kHeads; ++head) {
      const F w = V::Set(weight[head * kKeyTile + key]);
#pragma GCC unroll 4
      for (int c = 0; c < kColumns; ++c) sum[head][c] = V::Fma(w, value[c], sum[head][c]);
    }
  }
#pragma GCC unroll 4
  for (int head = 0; head < kHeads; ++head) {
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      V::Store(output + head * padded + column + c * V::kLanes, sum[head][c]);
    }
  }
}

// Scores to weights, in place, for one head; rescales the head's sum and output to the new maximum.
template <typename V>
inline void WeighHead(const DecodeScratch& s, int head, int num_keys, int padded) {
  using F = typename V::F;
  float* score = s.score + head * kKeyTile;
  for (int key = num_keys; key < kKeyTile; ++key) score[key] = kNegativeInfinity;
  F tile_largest = V::Set(s.largest[head]);
  for (int key = 0; key < kKeyTile; key += V::kLanes) {
    tile_largest = V::Max(tile_largest, V::Load(score + key));
  }
  const float largest = V::MaxOf(tile_largest);
  F sum = V::Zero();
  for (int key = 0; key < kKeyTile; key += V::kLanes) {
    const F weight = Exp2<V>(V::Sub(V::Load(score + key), V::Set(largest)));
    V::Store(score + key, weight);
    sum = V::Add(sum, weight);
  }
  const F factor = Exp2<V>(V::Sub(V::Set(s.largest[head]), V::Set(largest)));
  float first[V::kLanes];
  V::Store(first, factor);
  s.sum[head] = s.sum[head] * first[0] + V::SumOf(sum);
  s.largest[head] = largest;
  for (int i = 0; i < padded; i += V::kLanes) {
    float* output = s.output + head * padded + i;
    V::Store(output, V::Mul(V::Load(output), factor));
  }
}

// A tile's keys for kHeads heads from `head` on.
template <typename V, DType kType, int kHeads>
inline void DecodeTile(const AttentionUnit& unit, const DecodeScratch& s, int first_key,
                       int num_keys, int head) {
  const int head_dim = unit.head_dim, padded = PaddedDim(head_dim);
  const std::int64_t row_bytes = head_dim * SizeOf(kType);
  float* score = s.score + head * kKeyTile;
  ForRuns(unit, unit.k, first_key, num_keys, [&](int key, int length, const std::byte* rows) {
    for (int i = 0; i < length; i += 4) {
      ScoreFourKeys<V, kType, kHeads>(rows + i * row_bytes, head_dim, s.query + head * padded,
                                      score + key + i);
    }
  });
  for (int h = head; h < head + kHeads; ++h) WeighHead<V>(s, h, num_keys, padded);
  ForRuns(unit, unit.v, first_key, num_keys, [&](int key, int length, const std::byte* rows) {
    float* output = s.output + head * padded;
    int column = 0;
    for (; column + 4 * V::kLanes <= head_dim; column += 4 * V::kLanes) {
      AddValues<V, kType, kHeads, 4>(rows, length, head_dim, column, score + key, output);
    }
    for (; column < head_dim; column += V::kLanes) {
      AddValues<V, kType, kHeads, 1>(rows, length, head_dim, column, score + key, output);
    }
  });
}

template <typename V, DType kType>
inline void DecodeAs(const AttentionUnit& unit, float* memory) {
  const int group = unit.num_rows, padded = PaddedDim(unit.head_dim);
  const DecodeScratch s(memory, unit.head_dim, group);
  std::memset(s.query, 0, sizeof(float) * 2 * group * padded);
  for (int head = 0; head < group; ++head) {
    const float* from = unit.q + RowOffset(unit, unit.first_row + head);
    for (int i = 0; i < unit.head_dim; ++i) {
      s.query[head * padded + i] = from[i] * (unit.scale * kLog2E);
    }
    s.largest[head] = kNegativeInfinity;
    s.sum[head] = 0;
  }
  for (int key = 0; key < unit.num_keys; key += kKeyTile) {
    const int first = unit.first_key + key, count = Smaller(kKeyTile, unit.num_keys - key);
    int head = 0;
    for (; head + V::kGroupRows <= group; head += V::kGroupRows) {
      DecodeTile<V, kType, V::kGroupRows>(unit, s, first, count, head);
    }
    if constexpr (V::kGroupRows == 4) {
      if (head + 3 == group) DecodeTile<V, kType, 3>(unit, s, first, count, head);
      if (head + 2 == group) DecodeTile<V, kType, 2>(unit, s, first, count, head);
    }
    if (head + 1 == group) DecodeTile<V, kType, 1>(unit, s, first, count, head);
  }
  for (int head = 0; head < group; ++head) {
    const float* output = s.output + head * padded;
    if (unit.partial == nullptr) {
      WriteRow<V>(unit, unit.first_row + head, output, s.sum[head]);
      continue;
    }
    float* partial = unit.partial + head * PartialFloats(unit.head_dim);
    partial[0] = s.largest[head];
    partial[1] = s.sum[head];
    std::memcpy(partial + kPartialHeader, output, sizeof(float) * unit.head_dim);
  }
}

template <typename V>
void DecodeUnit(const AttentionUnit& unit, float* scratch) {
  if (unit.kv_dtype == DType::kF32) {
    DecodeAs<V, DType::kF32>(unit, scratch);
  } else if (unit.kv_dtype == DType::kBF16) {
    DecodeAs<V, DType::kBF16>(unit, scratch);
  } else {
    DecodeAs<V, DType::kF16>(unit, scratch);
  }
}

template <typename V>
void MergePartials(const AttentionUnit& unit, const float* partials, int num_partials,
                   std::int64_t stride, float* scratch) {
  using F = typename V::F;
  for (int row = 0; row < unit.num_rows; ++row) {
    const float* first = partials + row * PartialFloats(unit.head_dim);
    F largest = V::Set(kNegativeInfinity);
    for (int i = 0; i < num_partials; ++i) largest = V::Max(largest, V::Set(first[i * stride]));
    std::memset(scratch, 0, sizeof(float) * unit.head_dim);
    F sum = V::Zero();
    for (int i = 0; i < num_partials; ++i) {
      const float* partial = first + i * stride;
      const F factor = Exp2<V>(V::Sub(V::Set(partial[0]), largest));
      sum = V::Fma(V::Set(partial[1]), factor, sum);
      const float* output = partial + kPartialHeader;
      ForVectors<V>(
          unit.head_dim,
          [&](std::int64_t d) {
            V::Store(scratch + d, V::Fma(V::Load(output + d), factor, V::Load(scratch + d)));
          },
          [&](std::int64_t d, int n) {
            V::StoreFirst(
                scratch + d, n,
                V::Fma(V::LoadFirst(output + d, n), factor, V::LoadFirst(scratch + d, n)));
          });
    }
    float lanes[V::kLanes];
    V::Store(lanes, sum);
    WriteRow<V>(unit, unit.first_row + row, scratch, lanes[0]);
  }
}

}  // namespace
}  // namespace thresher

#endif
