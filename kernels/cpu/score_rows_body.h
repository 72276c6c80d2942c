// ScoreRowsLoop over a vector type: lanes are rows, keys are broadcast, so no lane meets another.
#pragma once

#if defined(__AVX2__)

#include <cstring>

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/score_rows.h"

namespace thresher {
// Unnamed on purpose, see simd_avx2.h.
namespace {

// out[key][row] = Σ_d keys[key][d] · query[d][row] for kKeys keys.
//   query [head_dim, kScoreRows]; keys [kKeys, head_dim]; out [kKeys, kScoreRows]
template <typename V, int kKeys>
inline void ScoreKeys(const float* query, const float* keys, int head_dim, float* out) {
  constexpr int kVectors = kScoreRows / V::kLanes;
  typename V::F sum[kKeys][kVectors];
#pragma GCC unroll 8
  for (int key = 0; key < kKeys; ++key) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[key][v] = V::Zero();
  }
  for (int d = 0; d < head_dim; ++d) {
    typename V::F column[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) column[v] = V::Load(query + d * kScoreRows + v * V::kLanes);
#pragma GCC unroll 8
    for (int key = 0; key < kKeys; ++key) {
      const typename V::F word = V::Set(keys[key * head_dim + d]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[key][v] = V::Fma(word, column[v], sum[key][v]);
    }
  }
#pragma GCC unroll 8
  for (int key = 0; key < kKeys; ++key) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      V::Store(out + key * kScoreRows + v * V::kLanes, sum[key][v]);
    }
  }
}

template <typename V, DType kType>
inline void ScoreTiles(const AttentionUnit& unit, float* scratch, float* scores) {
  constexpr int kKeys = 8 * V::kLanes / kScoreRows;
  float* const query = scratch;
  float* const keys = query + kScoreRows * unit.head_dim;
  float* const tile = keys + kKeyTile * unit.head_dim;
  const std::int64_t stride = ScoreStride(unit.num_keys);
  for (int first = 0; first < unit.num_keys; first += kKeyTile) {
    WidenRows<V, kType>(unit, unit.k, first, Smaller(kKeyTile, unit.num_keys - first), keys);
    for (int key = 0; key < kKeyTile; key += kKeys) {
      ScoreKeys<V, kKeys>(query, keys + key * unit.head_dim, unit.head_dim,
                          tile + key * kScoreRows);
    }
    for (int key = 0; key < kKeyTile; key += 8) {
      for (int row = 0; row < kScoreRows; row += 8) {
        Transpose8x8(tile + key * kScoreRows + row, kScoreRows, scores + row * stride + first + key,
                     stride);
      }
    }
  }
}

template <typename V>
void ScoreRowsOf(const AttentionUnit& unit, const float* const* q, int num_rows, float* scratch,
                 float* scores) {
  // Missing rows and the keys after the last one are zeros.
  std::memset(scratch, 0, ScoreScratchFloats(unit.head_dim) * sizeof(float));
  for (int row = 0; row < num_rows; ++row) {
    for (int d = 0; d < unit.head_dim; ++d) scratch[d * kScoreRows + row] = q[row][d] * unit.scale;
  }
  switch (unit.kv_dtype) {
    case DType::kF32:
      return ScoreTiles<V, DType::kF32>(unit, scratch, scores);
    case DType::kBF16:
      return ScoreTiles<V, DType::kBF16>(unit, scratch, scores);
    default:
      return ScoreTiles<V, DType::kF16>(unit, scratch, scores);
  }
}

}  // namespace
}  // namespace thresher

#endif
