// Block scores over a vector type. Lanes run along head_dim; a dot product has one accumulator a
// lane, so its bits do not depend on which others are made beside it.
#pragma once

#if defined(__AVX2__)

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/block_score_loops.h"

namespace thresher {
// Unnamed on purpose, see simd_avx2.h.
namespace {

template <typename V>
inline void SetZero(std::int64_t count, float* to) {
  ForVectors<V>(
      count, [&](std::int64_t i) { V::Store(to + i, V::Zero()); },
      [&](std::int64_t i, int n) { V::StoreFirst(to + i, n, V::Zero()); });
}

// to[0 … count) += row.
template <typename V>
inline void AddRow(const float* row, int count, float* to) {
  ForVectors<V>(
      count, [&](std::int64_t i) { V::Store(to + i, V::Add(V::Load(to + i), V::Load(row + i))); },
      [&](std::int64_t i, int n) {
        V::StoreFirst(to + i, n, V::Add(V::LoadFirst(to + i, n), V::LoadFirst(row + i, n)));
      });
}

// First bytes of the rows of a block's keys or values.
class BlockRows final {
 public:
  BlockRows(const AttentionUnit& unit, const std::byte* base, int first_key, int num_keys)
      : row_bytes_(unit.head_dim * SizeOf(unit.kv_dtype)), num_keys_(num_keys) {
    ForRuns(unit, base, first_key, num_keys, [&](int key, int run, const std::byte* rows) {
      for (int i = 0; i < run; i += 8) eighths_[(key + i) / 8] = rows + i * row_bytes_;
    });
  }
  const std::byte* At(int key) const { return eighths_[key / 8] + key % 8 * row_bytes_; }
  // Into the second-level cache: blocks of a cache lie scattered, which the hardware's prefetcher
  // cannot follow.
  void Fetch(int key) const {
    if (key >= num_keys_) return;
    for (std::int64_t i = 0; i < row_bytes_; i += 64) __builtin_prefetch(At(key) + i, 0, 2);
  }

 private:
  std::int64_t row_bytes_;
  int num_keys_;
  const std::byte* eighths_[kListedBlock / 8] = {};  // eight rows lie in one block of the cache
};

template <typename V, DType kType>
inline void KeySumsOf(const AttentionUnit& unit, int first_key, int stride, const BlockRows& ahead,
                      std::uint16_t* sums) {
  using F = typename V::F;
  const BlockRows keys(unit, unit.k, first_key, kListedBlock);
  int fetched = 0;
  for (int offset = 0; offset < stride; ++offset) {
    for (int i = 0; i < kListedBlock / stride; ++i) ahead.Fetch(fetched++);
    std::uint16_t* to = sums + std::int64_t{stride - 1 - offset} * unit.head_dim;
    ForVectors<V>(
        unit.head_dim,
        [&](std::int64_t d) {
          F sum = V::Zero();
          for (int key = offset; key < kListedBlock; key += stride) {
            sum = V::Add(sum, LoadAs<V, kType>(keys.At(key), d));
          }
          V::StoreBf16(to + d, sum);
        },
        [&](std::int64_t d, int n) {
          F sum = V::Zero();
          for (int key = offset; key < kListedBlock; key += stride) {
            sum = V::Add(sum, LoadFirstAs<V, kType>(keys.At(key), d, n));
          }
          StoreFirstAs<V, DType::kBF16>(to, d, n, sum);
        });
  }
}

template <typename V>
void KeySums(const AttentionUnit& unit, int first_key, int stride, bool then_values, int num_ahead,
             std::uint16_t* sums) {
  const BlockRows ahead = then_values
                              ? BlockRows(unit, unit.v, first_key, kListedBlock)
                              : BlockRows(unit, unit.k, first_key + kListedBlock, num_ahead);
  if (unit.kv_dtype == DType::kF32) {
    KeySumsOf<V, DType::kF32>(unit, first_key, stride, ahead, sums);
  } else if (unit.kv_dtype == DType::kBF16) {
    KeySumsOf<V, DType::kBF16>(unit, first_key, stride, ahead, sums);
  } else {
    KeySumsOf<V, DType::kF16>(unit, first_key, stride, ahead, sums);
  }
}

template <typename V>
void QuerySums(const BlockQueries& queries, int head_dim, int stride, float* sums) {
  SetZero<V>(std::int64_t{stride} * head_dim, sums);
  for (int i = 0; i < queries.num_queries; ++i) {
    const int segment = (queries.first_offset + i) % stride;
    AddRow<V>(queries.q + i * queries.row_stride, head_dim,
              sums + std::int64_t{segment} * head_dim);
  }
}

template <typename V, int kHeads>
inline void HeadProducts(const float* query, const std::uint16_t* key_sums, int num_blocks,
                         int length, float factor, float* scores, std::int64_t score_stride) {
  using F = typename V::F;
  for (int first = 0; first < num_blocks; first += 4) {
    const std::uint16_t* row[4];
    for (int i = 0; i < 4; ++i) {
      row[i] = key_sums + std::int64_t{Smaller(first + i, num_blocks - 1)} * length;
    }
    F sum[kHeads][4];
#pragma GCC unroll 4
    for (int head = 0; head < kHeads; ++head) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) sum[head][i] = V::Zero();
    }
    for (int d = 0; d < length; d += V::kLanes) {
      F k[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) k[i] = V::LoadBf16(row[i] + d);
#pragma GCC unroll 4
      for (int head = 0; head < kHeads; ++head) {
        const F q = V::Load(query + std::int64_t{head} * length + d);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) sum[head][i] = V::Fma(q, k[i], sum[head][i]);
      }
    }
    for (int head = 0; head < kHeads; ++head) {
      float four[4];
      V::SumOf4(sum[head][0], sum[head][1], sum[head][2], sum[head][3], four);
      for (int i = 0; i < Smaller(4, num_blocks - first); ++i) {
        scores[head * score_stride + first + i] = factor * four[i];
      }
    }
  }
}

template <typename V>
void Products(const float* query_sums, int num_heads, const std::uint16_t* key_sums, int num_blocks,
              int length, float factor, float* scores, std::int64_t score_stride) {
  for (int head = 0; head < num_heads;) {
    const float* query = query_sums + std::int64_t{head} * length;
    float* to = scores + head * score_stride;
    const int left = Smaller(num_heads - head, V::kGroupRows);
    if (left >= 4) {
      HeadProducts<V, 4>(query, key_sums, num_blocks, length, factor, to, score_stride);
    } else if (left == 3) {
      HeadProducts<V, 3>(query, key_sums, num_blocks, length, factor, to, score_stride);
    } else if (left == 2) {
      HeadProducts<V, 2>(query, key_sums, num_blocks, length, factor, to, score_stride);
    } else {
      HeadProducts<V, 1>(query, key_sums, num_blocks, length, factor, to, score_stride);
    }
    head += left;
  }
}

template <typename V, DType kType>
inline void ValueSquaresOf(const AttentionUnit& unit, int first_key, int num_keys,
                           const float* centre, const BlockRows& ahead, float* squares) {
  using F = typename V::F;
  const BlockRows values(unit, unit.v, first_key, num_keys);
  for (int key = 0; key < num_keys; key += 4) {
    F sum[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      ahead.Fetch(key + i);
      const std::byte* row = values.At(key + i);
      sum[i] = V::Zero();
      ForVectors<V>(
          unit.head_dim,
          [&](std::int64_t d) {
            F v = LoadAs<V, kType>(row, d);
            if (centre != nullptr) v = V::Sub(v, V::Load(centre + d));
            sum[i] = V::Fma(v, v, sum[i]);
          },
          [&](std::int64_t d, int n) {
            F v = LoadFirstAs<V, kType>(row, d, n);
            if (centre != nullptr) v = V::Sub(v, V::LoadFirst(centre + d, n));
            sum[i] = V::Fma(v, v, sum[i]);
          });
    }
    V::SumOf4(sum[0], sum[1], sum[2], sum[3], squares + key);
  }
}

template <typename V>
void ValueSquares(const AttentionUnit& unit, int first_key, int num_keys, const float* centre,
                  int num_ahead, float* squares) {
  const BlockRows ahead(unit, unit.k, first_key + kListedBlock, num_ahead);
  if (unit.kv_dtype == DType::kF32) {
    ValueSquaresOf<V, DType::kF32>(unit, first_key, num_keys, centre, ahead, squares);
  } else if (unit.kv_dtype == DType::kBF16) {
    ValueSquaresOf<V, DType::kBF16>(unit, first_key, num_keys, centre, ahead, squares);
  } else {
    ValueSquaresOf<V, DType::kF16>(unit, first_key, num_keys, centre, ahead, squares);
  }
}

// scores[0 … num_scores) to their maximum and the sum of exp(score − maximum).
template <typename V>
inline void SumExponentials(const float* scores, int num_scores, float* largest, float* sum) {
  using F = typename V::F;
  F most = V::Set(scores[0]);
  ForVectors<V>(
      num_scores, [&](std::int64_t i) { most = V::Max(most, V::Load(scores + i)); },
      [&](std::int64_t i, int n) {
        for (int j = 0; j < n; ++j) most = V::Max(most, V::Set(scores[i + j]));
      });
  *largest = V::MaxOf(most);
  const F maximum = V::Set(*largest);
  F total = V::Zero();
  float rest = 0;
  ForVectors<V>(
      num_scores,
      [&](std::int64_t i) { total = V::Add(total, Exp<V>(V::Sub(V::Load(scores + i), maximum))); },
      [&](std::int64_t i, int n) {
        float weights[V::kLanes];
        V::Store(weights, Exp<V>(V::Sub(V::LoadFirst(scores + i, n), maximum)));
        for (int j = 0; j < n; ++j) rest += weights[j];
      });
  *sum = V::SumOf(total) + rest;
}

// Scores of the queries at offsets [first, last), all of one group, with four groups of keys.
template <typename V>
inline void FourGroupScores(const BlockQueries& queries, int first, int last, int stride,
                            int head_dim, const float* const keys[4], float* scores) {
  using F = typename V::F;
  F sum[4] = {V::Zero(), V::Zero(), V::Zero(), V::Zero()};
  for (int offset = first; offset < last; ++offset) {
    const float* q = queries.q + (offset - queries.first_offset) * queries.row_stride;
    const std::int64_t at = std::int64_t{stride - 1 - offset % stride} * head_dim;
    ForVectors<V>(
        head_dim,
        [&](std::int64_t d) {
          const F query = V::Load(q + d);
          for (int i = 0; i < 4; ++i) sum[i] = V::Fma(query, V::Load(keys[i] + at + d), sum[i]);
        },
        [&](std::int64_t d, int n) {
          const F query = V::LoadFirst(q + d, n);
          for (int i = 0; i < 4; ++i) {
            sum[i] = V::Fma(query, V::LoadFirst(keys[i] + at + d, n), sum[i]);
          }
        });
  }
  V::SumOf4(sum[0], sum[1], sum[2], sum[3], scores);
}

template <typename V>
void GroupSums(const AttentionUnit& unit, const BlockQueries& queries, int stride, int first_key,
               int num_keys, bool own, float* scratch, float* largest, float* sum,
               std::int64_t result_stride) {
  if (unit.kv_dtype == DType::kF32) {
    WidenRows<V, DType::kF32>(unit, unit.k, first_key, num_keys, scratch);
  } else if (unit.kv_dtype == DType::kBF16) {
    WidenRows<V, DType::kBF16>(unit, unit.k, first_key, num_keys, scratch);
  } else {
    WidenRows<V, DType::kF16>(unit, unit.k, first_key, num_keys, scratch);
  }
  const int end = queries.first_offset + queries.num_queries;
  for (int group = queries.first_offset / stride; group * stride < end; ++group) {
    const int from = group * stride;
    const int first = from > queries.first_offset ? from : queries.first_offset;
    const int last = Smaller(from + stride, end);
    const int num_groups = own ? Smaller(group + 1, num_keys / stride) : num_keys / stride;
    const float factor = unit.scale / static_cast<float>(last - first);
    float scores[kListedBlock];
    for (int i = 0; i < num_groups; i += 4) {
      const float* keys[4];
      for (int j = 0; j < 4; ++j) {
        keys[j] = scratch + std::int64_t{Smaller(i + j, num_groups - 1)} * stride * unit.head_dim;
      }
      float four[4];
      FourGroupScores<V>(queries, first, last, stride, unit.head_dim, keys, four);
      for (int j = 0; j < Smaller(4, num_groups - i); ++j) scores[i + j] = factor * four[j];
    }
    SumExponentials<V>(scores, num_groups, largest + group * result_stride,
                       sum + group * result_stride);
  }
}

template <typename V>
constexpr BlockScoreLoops MakeBlockScoreLoops() {
  return {.key_sums = KeySums<V>,
          .query_sums = QuerySums<V>,
          .products = Products<V>,
          .value_squares = ValueSquares<V>,
          .group_sums = GroupSums<V>};
}

}  // namespace
}  // namespace thresher

#endif
