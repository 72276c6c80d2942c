// Value rows that are kept here and there: found, fetched ahead, and added to the outputs.
#pragma once

#if defined(__AVX2__)

#include <cstdint>

#include "kernels/cpu/attention_decode_body.h"

namespace thresher {
// Unnamed on purpose, see simd_avx2.h.
namespace {

// Value rows that a tile keeps.
struct KeptRows {
  int count = 0;
  std::uint8_t keys[kKeyTile];  // index in the tile, ascending
  const std::byte* rows[kKeyTile];
};

// Calls body<kHeads>(head) for groups of heads as wide as the registers allow.
template <typename V, typename Body>
inline void ForHeadGroups(int count, const Body& body) {
  int head = 0;
  for (; head + V::kGroupRows <= count; head += V::kGroupRows) {
    body.template operator()<V::kGroupRows>(head);
  }
  if constexpr (V::kGroupRows == 4) {
    if (head + 3 == count) body.template operator()<3>(head);
    if (head + 2 == count) body.template operator()<2>(head);
  }
  if (head + 1 == count) body.template operator()<1>(head);
}

// Finds the value rows of the tile's kept keys and fetches them.
inline void FetchRows(const AttentionUnit& rows, int first_key, std::uint64_t bits,
                      KeptRows& kept) {
  const std::int64_t row_bytes = rows.head_dim * SizeOf(rows.kv_dtype);
  kept.count = 0;
  for (; bits != 0; bits &= bits - 1) {
    const int key = __builtin_ctzll(bits), position = first_key + key;
    const std::int64_t block = rows.block_table[position / rows.block_size];
    const std::byte* row =
        rows.v + block * rows.block_bytes + position % rows.block_size * row_bytes;
    PrefetchRow(row, row_bytes);
    kept.keys[kept.count] = static_cast<std::uint8_t>(key);
    kept.rows[kept.count++] = row;
  }
}

// output[head][first …) += weight[head][row] · value[row][first …) for kPairs pairs of vectors, or,
// if kPairs is 0, for one vector of the rest.
template <typename V, DType kType, int kHeads, int kPairs>
inline void AddKeptRows(const KeptRows& kept, int head_dim, int first, const float* weight,
                        float* output) {
  using F = typename V::F;
  constexpr int kVectors = kPairs == 0 ? 1 : 2 * kPairs;
  const int padded = PaddedDim(head_dim);
  output += first;
  F sum[kHeads][kVectors];
#pragma GCC unroll 4
  for (int head = 0; head < kHeads; ++head) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sum[head][v] = V::Load(output + head * padded + v * V::kLanes);
    }
  }
  for (int i = 0; i < kept.count; ++i) {
    F value[kVectors];
    if constexpr (kPairs == 0) {
      value[0] = LoadOfRest<V, kType>(kept.rows[i], first, head_dim);
    } else {
#pragma GCC unroll 2
      for (int pair = 0; pair < kPairs; ++pair) {
        const int element = first + pair * 2 * V::kLanes;
        value[2 * pair] = LoadOfPair<V, kType, 0>(kept.rows[i], element);
        value[2 * pair + 1] = LoadOfPair<V, kType, 1>(kept.rows[i], element);
      }
    }
#pragma GCC unroll 4
    for (int head = 0; head < kHeads; ++head) {
      const F w = V::Set(weight[head * kKeyTile + i]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[head][v] = V::Fma(w, value[v], sum[head][v]);
    }
  }
#pragma GCC unroll 4
  for (int head = 0; head < kHeads; ++head) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      V::Store(output + head * padded + v * V::kLanes, sum[head][v]);
    }
  }
}

// outputs [num_outputs, PaddedDim] += weights [num_outputs, kKeyTile] · the kept value rows.
template <typename V, DType kType>
inline void AddKeptValues(const KeptRows& kept, int head_dim, int num_outputs, const float* weights,
                          float* outputs) {
  if (kept.count == 0) return;
  const int padded = PaddedDim(head_dim);
  const int paired = PairedElements<V>(head_dim);
  ForHeadGroups<V>(num_outputs, [&]<int kHeads>(int head) {
    const float* weight = weights + head * kKeyTile;
    float* output = outputs + head * padded;
    int first = 0;
    for (; first + 4 * V::kLanes <= paired; first += 4 * V::kLanes) {
      AddKeptRows<V, kType, kHeads, 2>(kept, head_dim, first, weight, output);
    }
    for (; first < paired; first += 2 * V::kLanes) {
      AddKeptRows<V, kType, kHeads, 1>(kept, head_dim, first, weight, output);
    }
    for (; first < head_dim; first += V::kLanes) {
      AddKeptRows<V, kType, kHeads, 0>(kept, head_dim, first, weight, output);
    }
  });
}

}  // namespace
}  // namespace thresher

#endif
