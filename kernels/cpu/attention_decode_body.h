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

// Vectors of a row are held in the order that is cheapest to load. A row is whole pairs of vectors,
// 2 kLanes elements each, and a rest. A pair of bf16 is held as the elements with even indices,
// then those with odd ones; all else in its own order.
template <typename V>
inline int PairedElements(int head_dim) {
  return head_dim / (2 * V::kLanes) * (2 * V::kLanes);
}

// Vector kHalf (0 or 1) of the pair that starts at element `pair`.
template <typename V, DType kType, int kHalf>
inline typename V::F LoadOfPair(const std::byte* row, int pair) {
  if constexpr (kType == DType::kBF16) {
    const auto* elements = reinterpret_cast<const std::uint16_t*>(row) + pair;
    return kHalf == 0 ? V::LoadEvenBf16(elements) : V::LoadOddBf16(elements);
  } else {
    return LoadAs<V, kType>(row, pair + kHalf * V::kLanes);
  }
}

// Up to kLanes elements of the rest, from element `first` on.
template <typename V, DType kType>
inline typename V::F LoadOfRest(const std::byte* row, int first, int head_dim) {
  if (first + V::kLanes <= head_dim) return LoadAs<V, kType>(row, first);
  return LoadFirstAs<V, kType>(row, first, head_dim - first);
}

// Where element `i` of a row lies in that order.
template <typename V, DType kType>
inline int PlaceOf(int i, int head_dim) {
  if (kType != DType::kBF16 || i >= PairedElements<V>(head_dim)) return i;
  const int within = i % (2 * V::kLanes);
  return i - within + within % 2 * V::kLanes + within / 2;
}

// First bytes of every eighth row of a tile: eight rows lie in one block.
struct TileRows {
  const std::byte* rows[kKeyTile / 8] = {};
};

// Rows past num_keys are those of `otherwise`.
inline TileRows FindRows(const AttentionUnit& unit, const std::byte* base, int first_key,
                         int num_keys, const TileRows& otherwise = {}) {
  TileRows tile = otherwise;
  const std::int64_t row_bytes = unit.head_dim * SizeOf(unit.kv_dtype);
  ForRuns(unit, base, first_key, num_keys, [&](int key, int length, const std::byte* rows) {
    for (int i = 0; i < length; i += 8) tile.rows[(key + i) / 8] = rows + i * row_bytes;
  });
  return tile;
}

// Into the second-level cache: the first level tracks too few misses for memory's latency. A cache
// of scattered 8 KiB blocks: 38 ns a key without, 32 into the first level, 19 into the second; 15
// if the blocks lie in a row (Zen 4, 3 heads of 64, bf16, one thread, 512 keys a unit).
inline void PrefetchRow(const std::byte* row, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(row + i, 0, 2);
}

// sum[head][key] += query[head] · k[key] for one vector of each.
template <typename V, int kHeads>
inline __attribute__((always_inline)) void AddScores(const float* query, int padded,
                                                     const typename V::F (&k)[4],
                                                     typename V::F (&sum)[kHeads][4]) {
#pragma GCC unroll 4
  for (int head = 0; head < kHeads; ++head) {
    const typename V::F q = V::Load(query + head * padded);
#pragma GCC unroll 4
    for (int key = 0; key < 4; ++key) sum[head][key] = V::Fma(q, k[key], sum[head][key]);
  }
}

// score[head][0 … 4) for kHeads heads and the keys whose rows start at `rows`. Rows past the last
// key of the unit lie in its last block; their scores are overwritten.
template <typename V, DType kType, int kHeads>
inline void ScoreFourKeys(const std::byte* rows, int head_dim, const float* query, float* score) {
  using F = typename V::F;
  const std::int64_t row_bytes = head_dim * SizeOf(kType);
  const int padded = PaddedDim(head_dim);
  const int paired = PairedElements<V>(head_dim);
  const std::byte* row[4] = {rows, rows + row_bytes, rows + 2 * row_bytes, rows + 3 * row_bytes};
  F sum[kHeads][4], k[4];
#pragma GCC unroll 4
  for (int head = 0; head < kHeads; ++head) {
#pragma GCC unroll 4
    for (int key = 0; key < 4; ++key) sum[head][key] = V::Zero();
  }
  for (int pair = 0; pair < paired; pair += 2 * V::kLanes) {
#pragma GCC unroll 4
    for (int key = 0; key < 4; ++key) k[key] = LoadOfPair<V, kType, 0>(row[key], pair);
    AddScores<V, kHeads>(query + pair, padded, k, sum);
#pragma GCC unroll 4
    for (int key = 0; key < 4; ++key) k[key] = LoadOfPair<V, kType, 1>(row[key], pair);
    AddScores<V, kHeads>(query + pair + V::kLanes, padded, k, sum);
  }
  for (int first = paired; first < head_dim; first += V::kLanes) {
#pragma GCC unroll 4
    for (int key = 0; key < 4; ++key) k[key] = LoadOfRest<V, kType>(row[key], first, head_dim);
    AddScores<V, kHeads>(query + first, padded, k, sum);
  }
#pragma GCC unroll 4
  for (int head = 0; head < kHeads; ++head) {
    V::SumOf4(sum[head][0], sum[head][1], sum[head][2], sum[head][3], score + head * kKeyTile);
  }
}

// output[head][first …) += weight[head][key] · value[key][first …) for kPairs pairs of vectors, or,
// if kPairs is 0, for one vector of the rest. Meanwhile fetches the rows of `next`.
template <typename V, DType kType, int kHeads, int kPairs>
inline void AddValues(const TileRows& tile, const TileRows& next, int num_keys, int head_dim,
                      int first, const float* weight, float* output) {
  using F = typename V::F;
  constexpr int kVectors = kPairs == 0 ? 1 : 2 * kPairs;
  const std::int64_t row_bytes = head_dim * SizeOf(kType);
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
  for (int key = 0; key < num_keys; ++key) {
    const std::int64_t within = key % 8 * row_bytes;
    const std::byte* row = tile.rows[key / 8] + within;
    PrefetchRow(next.rows[key / 8] + within, row_bytes);
    F value[kVectors];
    if constexpr (kPairs == 0) {
      value[0] = LoadOfRest<V, kType>(row, first, head_dim);
    } else {
#pragma GCC unroll 2
      for (int pair = 0; pair < kPairs; ++pair) {
        const int element = first + pair * 2 * V::kLanes;
        value[2 * pair] = LoadOfPair<V, kType, 0>(row, element);
        value[2 * pair + 1] = LoadOfPair<V, kType, 1>(row, element);
      }
    }
#pragma GCC unroll 4
    for (int head = 0; head < kHeads; ++head) {
      const F w = V::Set(weight[head * kKeyTile + key]);
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

// Rows of a tile and of the one after it.
struct DecodeTile {
  TileRows keys;
  TileRows values;
  TileRows next_keys;
  int num_keys = 0;
};

// A tile's keys for kHeads heads from `head` on.
template <typename V, DType kType, int kHeads>
inline void DecodeHeads(const AttentionUnit& unit, const DecodeScratch& s, const DecodeTile& tile,
                        int head) {
  const int head_dim = unit.head_dim, padded = PaddedDim(head_dim);
  const std::int64_t row_bytes = head_dim * SizeOf(kType);
  float* score = s.score + head * kKeyTile;
  for (int key = 0; key < tile.num_keys; key += 4) {
    const std::byte* values = tile.values.rows[key / 8] + key % 8 * row_bytes;
    if (head == 0) PrefetchRow(values, 4 * row_bytes);
    ScoreFourKeys<V, kType, kHeads>(tile.keys.rows[key / 8] + key % 8 * row_bytes, head_dim,
                                    s.query + head * padded, score + key);
  }
  for (int h = head; h < head + kHeads; ++h) WeighHead<V>(s, h, tile.num_keys, padded);
  float* output = s.output + head * padded;
  const auto add = [&]<int kPairs>(int first) {
    // Rows that were just read are a fetch that costs nothing.
    AddValues<V, kType, kHeads, kPairs>(tile.values,
                                        head + first == 0 ? tile.next_keys : tile.values,
                                        tile.num_keys, head_dim, first, score, output);
  };
  const int paired = PairedElements<V>(head_dim);
  int first = 0;
  for (; first + 4 * V::kLanes <= paired; first += 4 * V::kLanes) add.template operator()<2>(first);
  for (; first < paired; first += 2 * V::kLanes) add.template operator()<1>(first);
  for (; first < head_dim; first += V::kLanes) add.template operator()<0>(first);
}

template <typename V, DType kType>
inline void LoadQueries(const AttentionUnit& unit, const DecodeScratch& s) {
  const int padded = PaddedDim(unit.head_dim);
  std::memset(s.query, 0, sizeof(float) * 2 * unit.num_rows * padded);  // and the outputs
  for (int head = 0; head < unit.num_rows; ++head) {
    const float* from = unit.q + RowOffset(unit, unit.first_row + head);
    for (int i = 0; i < unit.head_dim; ++i) {
      s.query[head * padded + PlaceOf<V, kType>(i, unit.head_dim)] =
          from[i] * (unit.scale * kLog2E);
    }
    s.largest[head] = kNegativeInfinity;
    s.sum[head] = 0;
  }
}

template <typename V, DType kType>
inline void WriteResults(const AttentionUnit& unit, const DecodeScratch& s) {
  const int padded = PaddedDim(unit.head_dim);
  for (int head = 0; head < unit.num_rows; ++head) {
    float* natural = unit.partial == nullptr
                         ? s.query + head * padded  // the query is no longer needed
                         : unit.partial + head * PartialFloats(unit.head_dim) + kPartialHeader;
    for (int i = 0; i < unit.head_dim; ++i) {
      natural[i] = s.output[head * padded + PlaceOf<V, kType>(i, unit.head_dim)];
    }
    if (unit.partial == nullptr) {
      WriteRow<V>(unit, unit.first_row + head, natural, s.sum[head]);
    } else {
      natural[-kPartialHeader] = s.largest[head];
      natural[1 - kPartialHeader] = s.sum[head];
    }
  }
}

template <typename V, DType kType>
inline void DecodeAs(const AttentionUnit& unit, float* memory) {
  const int group = unit.num_rows;
  const DecodeScratch s(memory, unit.head_dim, group);
  LoadQueries<V, kType>(unit, s);
  DecodeTile tile;
  tile.next_keys = FindRows(unit, unit.k, unit.first_key, Smaller(kKeyTile, unit.num_keys));
  for (int key = 0; key < unit.num_keys; key += kKeyTile) {
    const int first = unit.first_key + key;
    tile.num_keys = Smaller(kKeyTile, unit.num_keys - key);
    tile.keys = tile.next_keys;
    tile.values = FindRows(unit, unit.v, first, tile.num_keys);
    tile.next_keys =
        FindRows(unit, unit.k, first + kKeyTile, Smaller(kKeyTile, unit.num_keys - key - kKeyTile));
    int head = 0;
    for (; head + V::kGroupRows <= group; head += V::kGroupRows) {
      DecodeHeads<V, kType, V::kGroupRows>(unit, s, tile, head);
    }
    if constexpr (V::kGroupRows == 4) {
      if (head + 3 == group) DecodeHeads<V, kType, 3>(unit, s, tile, head);
      if (head + 2 == group) DecodeHeads<V, kType, 2>(unit, s, tile, head);
    }
    if (head + 1 == group) DecodeHeads<V, kType, 1>(unit, s, tile, head);
  }
  WriteResults<V, kType>(unit, s);
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
