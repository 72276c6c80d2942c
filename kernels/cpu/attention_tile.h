// Parts that the prefill and decode loops share, over a vector type: rows of the paged cache, small
// transposes, the final division.
#pragma once

#if defined(__AVX2__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention_unit.h"
#include "kernels/cpu/simd_math.h"

namespace thresher {
// Unnamed on purpose, see simd_avx2.h.
namespace {

inline constexpr float kLog2E = 1.44269504088896340736f;
inline constexpr float kNegativeInfinity = -__builtin_inff();

inline int Smaller(int a, int b) { return a < b ? a : b; }

// Calls run(tile_key, num_keys, bytes) for each stretch of the tile's keys that lies in one block;
// bytes is the stretch's first row.
template <typename Run>
inline void ForRuns(const AttentionUnit& unit, const std::byte* base, int first_key, int num_keys,
                    const Run& run) {
  const std::int64_t row_bytes = unit.head_dim * SizeOf(unit.kv_dtype);
  for (int key = 0; key < num_keys;) {
    const int position = first_key + key;
    const int offset = position % unit.block_size;
    const int length = Smaller(num_keys - key, unit.block_size - offset);
    const std::int64_t block = unit.block_table[position / unit.block_size];
    run(key, length, base + block * unit.block_bytes + offset * row_bytes);
    key += length;
  }
}

// rows [num_keys, head_dim] := the tile's keys or values as f32.
template <typename V, DType kType>
inline void WidenRows(const AttentionUnit& unit, const std::byte* base, int first_key, int num_keys,
                      float* rows) {
  ForRuns(unit, base, first_key, num_keys, [&](int key, int length, const std::byte* bytes) {
    float* to = rows + std::int64_t{key} * unit.head_dim;
    ForVectors<V>(
        std::int64_t{length} * unit.head_dim,
        [&](std::int64_t i) { V::Store(to + i, LoadAs<V, kType>(bytes, i)); },
        [&](std::int64_t i, int n) {
          V::StoreFirst(to + i, n, LoadFirstAs<V, kType>(bytes, i, n));
        });
  });
}

// to[c · to_stride + r] = from_r[c] for r, c < 8; from_r = from + r · from_stride.
inline void Transpose8x8(const float* from, std::int64_t from_stride, float* to,
                         std::int64_t to_stride) {
  __m256 r[8], t[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(from + i * from_stride);
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * to_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * to_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

// Element offset of row `row` of the sequence in q and out.
inline std::int64_t RowOffset(const AttentionUnit& unit, int row) {
  return std::int64_t{row / unit.group_size} * unit.query_stride +
         std::int64_t{row % unit.group_size} * unit.head_dim;
}

// out's row := sum / weight.
template <typename V>
inline void WriteRow(const AttentionUnit& unit, int row, const float* sum, float weight) {
  const typename V::F factor = V::Set(1.0f / weight);
  const std::int64_t at = RowOffset(unit, row);
  const auto store = [&]<DType kOut>() {
    ForVectors<V>(
        unit.head_dim,
        [&](std::int64_t i) {
          StoreAs<V, kOut>(unit.out, at + i, V::Mul(V::Load(sum + i), factor));
        },
        [&](std::int64_t i, int n) {
          StoreFirstAs<V, kOut>(unit.out, at + i, n, V::Mul(V::LoadFirst(sum + i, n), factor));
        });
  };
  if (unit.out_dtype == DType::kF32) {
    store.template operator()<DType::kF32>();
  } else {
    store.template operator()<DType::kBF16>();
  }
}

}  // namespace
}  // namespace thresher

#endif
