// Prefill over a bf16 cache with bf16 products: twice the rate of f32 FMAs, and keys are read as
// they lie in the cache. Queries (with scale and log2 e in them) and weights are rounded to bf16,
// relative error 2^-8 each; sums, maxima and the sum of weights stay f32. So a score is off by at
// most 2^-8 · scale · sum over d of |q_d · k_d|, and an output by 2^-8 times the weighted mean of
// |v| besides.
#include <bit>
#include <cstdint>

#include "kernels/cpu/attention_decode_body.h"
#include "kernels/cpu/attention_prefill_body.h"
#include "kernels/cpu/attention_unit.h"
#include "kernels/cpu/simd_avx512.h"

namespace thresher {
namespace {

using V = SimdAvx512;

// Words are pairs of bf16.
struct ProductBf16 {
  static constexpr int kDepth = 2;
  static __m512 Fma(float word, __m512 b, __m512 sum) {
    const __m512i pair = _mm512_set1_epi32(std::bit_cast<std::int32_t>(word));
    return _mm512_dpbf16_ps(sum, (__m512bh)pair, (__m512bh)_mm512_castps_si512(b));
  }
};

// Places of 16 low and 16 high halves, side by side, in the order of pairs.
__m512i PairOrder() {
  alignas(64) static constexpr std::uint16_t kOrder[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_load_si512(kOrder);
}

// Pairs (low, high) of two vectors, rounded to bf16, to nearest even.
__m512 PairsOf(__m512 low, __m512 high) {
  const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(high, low);
  return _mm512_castsi512_ps(_mm512_permutexvar_epi16(PairOrder(), halves));
}

// head_dim is a multiple of 16.
class Bf16Operands final {
 public:
  using Product = ProductBf16;
  Bf16Operands(const AttentionUnit& unit, const PrefillScratch& scratch)
      : unit_(unit), scratch_(scratch) {}

  // query [head_dim / 2, kPrefillRows] pairs along head_dim.
  void LoadQuery() const {
    const int words = unit_.head_dim / 2;
    for (int row = 0; row < kPrefillRows; ++row) {
      // In place: word i takes the room of elements 2 i and 2 i + 1, which have been read.
      const float* from = scratch_.row_major + row * unit_.head_dim;
      float* to = scratch_.row_major + row * words;
      for (int d = 0; d < unit_.head_dim; d += 16) {
        const __m256i half = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from + d));
        _mm256_storeu_ps(to + d / 2, _mm256_castsi256_ps(half));
      }
    }
    for (int word = 0; word < words; word += 8) {
      for (int row = 0; row < kPrefillRows; row += 8) {
        Transpose8x8(scratch_.row_major + row * words + word, words,
                     scratch_.query + word * kPrefillRows + row, kPrefillRows);
      }
    }
  }

  // Keys stay where they are; value [keys / 2, head_dim] pairs along the keys, the last one's
  // partner zero if their number is odd.
  void LoadTile(int first_key, int num_keys) {
    ForRuns(unit_, unit_.k, first_key, num_keys, [&](int key, int length, const std::byte* rows) {
      for (int i = 0; i < length; i += 8) {
        key_rows_[(key + i) / 8] = rows + std::int64_t{i} * unit_.head_dim * 2;
      }
    });
    ForRuns(unit_, unit_.v, first_key, num_keys, [&](int key, int length, const std::byte* rows) {
      const auto* row = reinterpret_cast<const std::uint16_t*>(rows);
      for (int i = 0; i < length; i += 2) {
        PairRows(row + std::int64_t{i} * unit_.head_dim, i + 1 < length,
                 scratch_.value + (key + i) / 2 * unit_.head_dim);
      }
    });
  }

  const float* KeyWords(int key) const {
    return reinterpret_cast<const float*>(key_rows_[key / 8]);
  }

  template <int kVectors>
  void Weigh(const PrefillScratch& s, int num_keys, int lane, const __m512* largest,
             __m512* sum) const {
    for (int key = 0; key < num_keys; key += 2) {
      const float* low = s.score + key * kPrefillRows + lane;
      float* to = s.weight + key / 2 * kPrefillRows + lane;
      for (int v = 0; v < kVectors; ++v) {
        const __m512 a = Exp2<V>(V::Sub(V::Load(low + v * V::kLanes), largest[v]));
        sum[v] = V::Add(sum[v], a);
        __m512 b = V::Zero();
        if (key + 1 < num_keys) {
          b = Exp2<V>(V::Sub(V::Load(low + kPrefillRows + v * V::kLanes), largest[v]));
          sum[v] = V::Add(sum[v], b);
        }
        V::Store(to + v * V::kLanes, PairsOf(a, b));
      }
    }
  }

 private:
  void PairRows(const std::uint16_t* row, bool has_partner, float* to) const {
    for (int d = 0; d < unit_.head_dim; d += 16) {
      const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + d));
      const __m256i high =
          has_partner
              ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + unit_.head_dim + d))
              : _mm256_setzero_si256();
      const __m512i halves = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
      _mm512_storeu_ps(to + d, _mm512_castsi512_ps(_mm512_permutexvar_epi16(PairOrder(), halves)));
    }
  }

  const AttentionUnit& unit_;
  const PrefillScratch& scratch_;
  const std::byte* key_rows_[kKeyTile / 8] = {};  // of every eighth key: eight lie in one block
};

void PrefillUnitBf16(const AttentionUnit& unit, float* scratch) {
  if (unit.kv_dtype == DType::kBF16 && unit.head_dim % 16 == 0) {
    PrefillWith<V, Bf16Operands>(unit, scratch);
  } else {
    PrefillUnit<V>(unit, scratch);
  }
}

}  // namespace

const AttentionAllLoops& AttentionAllLoopsAvx512Bf16() {
  static constexpr AttentionAllLoops kLoops = {
      .prefill = PrefillUnitBf16, .decode = DecodeUnit<V>, .merge = MergePartials<V>};
  return kLoops;
}

}  // namespace thresher
