// Prefill attention over a vector type. Scores are held key major, S[key][row], so that a vector's
// lanes are rows (queries times the heads of one KV head) and the softmax is vertical: no lane ever
// meets another, which is why a row's bits do not depend on its neighbours. K is read as it lies in
// the cache (broadcast), converted once for all rows of the tile.
#pragma once

#if defined(__AVX2__)

#include <cstring>

#include "kernels/cpu/attention_tile.h"

namespace thresher {
// Unnamed on purpose, see simd_avx2.h.
namespace {

// How two factors meet in a product: here both in f32.
template <typename V>
struct ProductF32 {
  using F = typename V::F;
  static constexpr int kDepth = 1;  // elements of the summed dimension in one word
  static F Fma(float word, F b, F sum) { return V::Fma(V::Set(word), b, sum); }
};

// C[r][lane] (+)= sum over k of A[r][k] · B[k][lane] for kRows rows and kVectors vectors.
//   a   words; A[r][k] at a + r · stride + k if kRowMajor, else at a + k · stride + r
//   b   [count, kPrefillRows];  c [kRows, kPrefillRows]
//   factor   null: C is overwritten; else C is multiplied by it, lane by lane, first
template <typename V, typename Product, int kRows, int kVectors, bool kRowMajor>
inline void TileProduct(const float* a, std::int64_t stride, const float* b, int count,
                        const float* factor, float* c) {
  using F = typename V::F;
  F sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = factor == nullptr ? V::Zero()
                                    : V::Mul(V::Load(c + r * kPrefillRows + v * V::kLanes),
                                             V::Load(factor + v * V::kLanes));
    }
  }
  for (int k = 0; k < count; ++k) {
    F column[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) column[v] = V::Load(b + k * kPrefillRows + v * V::kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      // The words of a bf16 cache are pairs of elements: bits, not numbers.
      float word;
      std::memcpy(&word, kRowMajor ? a + r * stride + k : a + k * stride + r, sizeof(word));
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sum[r][v] = Product::Fma(word, column[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      V::Store(c + r * kPrefillRows + v * V::kLanes, sum[r][v]);
    }
  }
}

// Scratch of a unit, cut up. All [.., kPrefillRows] arrays have rows as lanes.
struct PrefillScratch {
  PrefillScratch(float* memory, int head_dim) {
    const auto take = [&](std::int64_t floats) {
      float* taken = memory;
      memory += floats;
      return taken;
    };
    const std::int64_t d = head_dim;
    query = take(d * kPrefillRows);
    output = take(d * kPrefillRows);
    score = take(kKeyTile * kPrefillRows);
    weight = take(kKeyTile * kPrefillRows);
    largest = take(kPrefillRows);
    sum = take(kPrefillRows);
    factor = take(kPrefillRows);
    limit = take(kPrefillRows);
    key = take(kKeyTile * d);
    value = take(kKeyTile * d);
    row_major = take(kPrefillRows * d);
  }
  float* query;      // [head_dim] words; scale and log2(e) multiplied in
  float* output;     // [head_dim]
  float* score;      // [kKeyTile]
  float* weight;     // [kKeyTile] words
  float* largest;    // running maximum of the scores
  float* sum;        // running sum of the weights
  float* factor;     // exp2(old maximum − new maximum)
  float* limit;      // the last key of the tile that a row sees, counted from the tile's first
  float* key;        // [kKeyTile, head_dim] words
  float* value;      // [kKeyTile, head_dim] words
  float* row_major;  // [kPrefillRows, head_dim]
};

// What the products of a tile read, and how many keys it has.
struct PrefillTile {
  int num_keys = 0;
  bool masked = false;  // some row does not see the last key
};

// S := scores of the tile for the lanes from `lane` on, then weights, then output += weights · V.
template <typename V, typename Operands, int kVectors>
inline void TileStep(const AttentionUnit& unit, const PrefillScratch& s, const Operands& operands,
                     const PrefillTile& tile, int lane) {
  using F = typename V::F;
  using Product = typename Operands::Product;
  const int words = unit.head_dim / Product::kDepth;
  for (int key = 0; key < tile.num_keys; key += V::kTileRows) {
    TileProduct<V, Product, V::kTileRows, kVectors, true>(operands.KeyWords(key), words,
                                                          s.query + lane, words, nullptr,
                                                          s.score + key * kPrefillRows + lane);
  }
  F largest[kVectors], limit[kVectors], sum[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    largest[v] = V::Load(s.largest + lane + v * V::kLanes);
    limit[v] = V::Load(s.limit + lane + v * V::kLanes);
    sum[v] = V::Zero();
  }
  for (int key = 0; key < tile.num_keys; ++key) {
    float* row = s.score + key * kPrefillRows + lane;
    for (int v = 0; v < kVectors; ++v) {
      F score = V::Load(row + v * V::kLanes);
      if (tile.masked) {
        score = V::Select(V::GreaterEqual(limit[v], V::Set(static_cast<float>(key))), score,
                          V::Set(kNegativeInfinity));
        V::Store(row + v * V::kLanes, score);
      }
      largest[v] = V::Max(largest[v], score);
    }
  }
  operands.template Weigh<kVectors>(s, tile.num_keys, lane, largest, sum);
  for (int v = 0; v < kVectors; ++v) {
    const int at = lane + v * V::kLanes;
    const F factor = Exp2<V>(V::Sub(V::Load(s.largest + at), largest[v]));
    V::Store(s.factor + at, factor);
    V::Store(s.largest + at, largest[v]);
    V::Store(s.sum + at, V::Fma(V::Load(s.sum + at), factor, sum[v]));
  }
  const int value_words = (tile.num_keys + Product::kDepth - 1) / Product::kDepth;
  for (int d = 0; d < unit.head_dim; d += V::kTileRows) {
    TileProduct<V, Product, V::kTileRows, kVectors, false>(
        s.value + d, unit.head_dim, s.weight + lane, value_words, s.factor + lane,
        s.output + d * kPrefillRows + lane);
  }
}

// Keys and values widened to f32.
template <typename V, DType kType>
class F32Operands final {
 public:
  using Product = ProductF32<V>;
  F32Operands(const AttentionUnit& unit, const PrefillScratch& scratch)
      : unit_(unit), scratch_(scratch) {}

  void LoadQuery() const {
    for (int d = 0; d < unit_.head_dim; d += 8) {
      for (int row = 0; row < kPrefillRows; row += 8) {
        Transpose8x8(scratch_.row_major + row * unit_.head_dim + d, unit_.head_dim,
                     scratch_.query + d * kPrefillRows + row, kPrefillRows);
      }
    }
  }
  void LoadTile(int first_key, int num_keys) {
    WidenRows<V, kType>(unit_, unit_.k, first_key, num_keys, scratch_.key);
    WidenRows<V, kType>(unit_, unit_.v, first_key, num_keys, scratch_.value);
  }
  // Rows from num_keys on hold what an earlier tile left there; their scores are not read.
  const float* KeyWords(int key) const { return scratch_.key + key * unit_.head_dim; }

  // weight := exp2(score − largest); sum += weight.
  template <int kVectors>
  void Weigh(const PrefillScratch& s, int num_keys, int lane, const typename V::F* largest,
             typename V::F* sum) const {
    for (int key = 0; key < num_keys; ++key) {
      const int at = key * kPrefillRows + lane;
      for (int v = 0; v < kVectors; ++v) {
        const typename V::F weight =
            Exp2<V>(V::Sub(V::Load(s.score + at + v * V::kLanes), largest[v]));
        V::Store(s.weight + at + v * V::kLanes, weight);
        sum[v] = V::Add(sum[v], weight);
      }
    }
  }

 private:
  const AttentionUnit& unit_;
  const PrefillScratch& scratch_;
};

// row_major [kPrefillRows, head_dim] := the rows' queries times scale and log2(e); zero past them.
template <typename V>
inline void LoadRows(const AttentionUnit& unit, const PrefillScratch& s) {
  const typename V::F factor = V::Set(unit.scale * kLog2E);
  for (int row = 0; row < kPrefillRows; ++row) {
    float* to = s.row_major + row * unit.head_dim;
    if (row >= unit.num_rows) {
      std::memset(to, 0, unit.head_dim * sizeof(float));
      continue;
    }
    const float* from = unit.q + RowOffset(unit, unit.first_row + row);
    ForVectors<V>(
        unit.head_dim, [&](std::int64_t i) { V::Store(to + i, V::Mul(V::Load(from + i), factor)); },
        [&](std::int64_t i, int n) {
          V::StoreFirst(to + i, n, V::Mul(V::LoadFirst(from + i, n), factor));
        });
  }
}

inline void ResetState(const AttentionUnit& unit, const PrefillScratch& s) {
  for (int row = 0; row < kPrefillRows; ++row) {
    s.largest[row] = kNegativeInfinity;
    s.sum[row] = 0;
  }
  std::memset(s.output, 0, sizeof(float) * kPrefillRows * unit.head_dim);
}

// Position of the last key that lane `row` sees; lanes past the last row follow it, so that they
// stay finite.
inline int LastKeyOf(const AttentionUnit& unit, int row) {
  const int within = Smaller(row, unit.num_rows - 1);
  return unit.context_length + (unit.first_row + within) / unit.group_size;
}

// The tiles of keys that the unit visits, and where each starts; the last block's second one may
// start past the unit's keys.
inline int NumKeyTiles(const AttentionUnit& unit) {
  constexpr int kTilesOfBlock = kListedBlock / kKeyTile;
  return unit.listed == nullptr ? (unit.num_keys + kKeyTile - 1) / kKeyTile
                                : kTilesOfBlock * unit.num_listed;
}
inline int FirstKeyOfTile(const AttentionUnit& unit, int index) {
  constexpr int kTilesOfBlock = kListedBlock / kKeyTile;
  return unit.listed == nullptr
             ? index * kKeyTile
             : unit.listed[index / kTilesOfBlock] * kListedBlock + index % kTilesOfBlock * kKeyTile;
}

template <typename V, typename Operands>
inline void PrefillWith(const AttentionUnit& unit, float* memory) {
  const PrefillScratch s(memory, unit.head_dim);
  Operands operands(unit, s);
  LoadRows<V>(unit, s);
  operands.LoadQuery();
  ResetState(unit, s);
  const int num_tiles = NumKeyTiles(unit);
  for (int index = 0; index < num_tiles; ++index) {
    const int first_key = FirstKeyOfTile(unit, index);
    if (first_key >= unit.num_keys) break;
    PrefillTile tile;
    tile.num_keys = Smaller(kKeyTile, unit.num_keys - first_key);
    tile.masked = LastKeyOf(unit, 0) < first_key + tile.num_keys - 1;
    for (int row = 0; tile.masked && row < kPrefillRows; ++row) {
      s.limit[row] = static_cast<float>(LastKeyOf(unit, row) - first_key);
    }
    operands.LoadTile(first_key, tile.num_keys);
    int lane = 0;
    for (; lane + 2 * V::kLanes < unit.num_rows; lane += 3 * V::kLanes) {
      TileStep<V, Operands, 3>(unit, s, operands, tile, lane);
    }
    if (lane + V::kLanes < unit.num_rows) {
      TileStep<V, Operands, 2>(unit, s, operands, tile, lane);
    } else if (lane < unit.num_rows) {
      TileStep<V, Operands, 1>(unit, s, operands, tile, lane);
    }
  }
  for (int row = 0; row < unit.num_rows; row += 8) {
    for (int d = 0; d < unit.head_dim; d += 8) {
      Transpose8x8(s.output + d * kPrefillRows + row, kPrefillRows,
                   s.row_major + row * unit.head_dim + d, unit.head_dim);
    }
  }
  for (int row = 0; row < unit.num_rows; ++row) {
    WriteRow<V>(unit, unit.first_row + row, s.row_major + row * unit.head_dim, s.sum[row]);
  }
}

template <typename V>
void PrefillUnit(const AttentionUnit& unit, float* scratch) {
  if (unit.kv_dtype == DType::kF32) {
    PrefillWith<V, F32Operands<V, DType::kF32>>(unit, scratch);
  } else if (unit.kv_dtype == DType::kBF16) {
    PrefillWith<V, F32Operands<V, DType::kBF16>>(unit, scratch);
  } else {
    PrefillWith<V, F32Operands<V, DType::kF16>>(unit, scratch);
  }
}

}  // namespace
}  // namespace thresher

#endif
