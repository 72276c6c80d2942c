// Eight f32 lanes of AVX2, FMA and F16C for the kernels written once over a vector type. Nothing
// here unless the file is compiled for AVX2; only *_avx2.cc files include it.
#pragma once

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <immintrin.h>

#include <cstdint>

namespace thresher {
// Unnamed on purpose: code compiled for a wide instruction set must not be merged by the linker
// with another file's copy and then run on a narrower CPU.
namespace {

struct SimdAvx2 {
  using F = __m256;
  using Mask = __m256;  // all ones or all zeros in each lane
  static constexpr int kLanes = 8;
  static constexpr int kTileRows = 4;   // 4 x 3 accumulators, 3 loads and 1 broadcast: 16 registers
  static constexpr int kGroupRows = 2;  // of 4 accumulators, see attention_decode_body.h

  static F Zero() { return _mm256_setzero_ps(); }
  static F Set(float x) { return _mm256_set1_ps(x); }
  static F Load(const float* p) { return _mm256_loadu_ps(p); }
  static void Store(float* p, F x) { _mm256_storeu_ps(p, x); }
  static F Add(F a, F b) { return _mm256_add_ps(a, b); }
  static F Sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F Mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F Div(F a, F b) { return _mm256_div_ps(a, b); }
  static F Fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  // b if either is NaN.
  static F Max(F a, F b) { return _mm256_max_ps(a, b); }
  static F Min(F a, F b) { return _mm256_min_ps(a, b); }
  static F Round(F x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  // x · 2^n for whole n in [-126, 127].
  static F ScaleByPowerOf2(F x, F n) {
    const __m256i exponent =
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(x, _mm256_castsi256_ps(exponent));
  }

  static Mask Less(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
  static Mask GreaterEqual(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_GE_OQ); }
  static Mask Greater(F a, F b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
  static Mask IsNan(F a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
  static F Select(Mask m, F yes, F no) { return _mm256_blendv_ps(no, yes, m); }
  static F ZeroWhere(Mask m, F x) { return _mm256_andnot_ps(m, x); }
  static unsigned Bits(Mask m) { return static_cast<unsigned>(_mm256_movemask_ps(m)); }
  // Lane i is set if bit i is.
  static Mask MaskOf(unsigned bits) {
    const __m256i lanes = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i set = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), lanes);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lanes));
  }

  static float SumOf(F x) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
  }
  static float MaxOf(F x) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
  }
  // out[i] = sum of the lanes of a_i.
  static void SumOf4(F a0, F a1, F a2, F a3, float* out) {
    const F s01 = _mm256_add_ps(_mm256_unpacklo_ps(a0, a1), _mm256_unpackhi_ps(a0, a1));
    const F s23 = _mm256_add_ps(_mm256_unpacklo_ps(a2, a3), _mm256_unpackhi_ps(a2, a3));
    // Each half: its sums of a0, a1, a2, a3.
    const F s = _mm256_add_ps(_mm256_shuffle_ps(s01, s23, 0x44), _mm256_shuffle_ps(s01, s23, 0xEE));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
  }

  // First n lanes, 0 < n < kLanes; the other lanes read as zero and are not written.
  static __m256i FirstLanes(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static F LoadFirst(const float* p, int n) { return _mm256_maskload_ps(p, FirstLanes(n)); }
  static void StoreFirst(float* p, int n, F x) { _mm256_maskstore_ps(p, FirstLanes(n), x); }

  static F LoadBf16(const std::uint16_t* p) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }
  // Of 2 kLanes elements: those with even indices, those with odd indices. Cheaper than LoadBf16
  // where the order does not matter.
  static F LoadEvenBf16(const std::uint16_t* p) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), 16));
  }
  static F LoadOddBf16(const std::uint16_t* p) {
    return _mm256_castsi256_ps(_mm256_and_si256(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), _mm256_set1_epi32(-0x10000)));
  }
  static F LoadF16(const std::uint16_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  // To nearest even; a NaN stays a NaN.
  static void StoreBf16(std::uint16_t* p, F x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    rounded = _mm256_castps_si256(
        _mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet), IsNan(x)));
    const __m256i high = _mm256_srli_epi32(rounded, 16);
    const __m128i packed =
        _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
  }
  static void StoreF16(std::uint16_t* p, F x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};

}  // namespace
}  // namespace thresher

#endif
