// Sixteen f32 lanes of AVX-512 (F, BW, VL, DQ) for the kernels written once over a vector type.
// Nothing here unless the file is compiled for it; only *_avx512*.cc files include it.
#pragma once

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)

#include <immintrin.h>

#include <cstdint>

namespace thresher {
// Unnamed on purpose: code compiled for a wide instruction set must not be merged by the linker
// with another file's copy and then run on a narrower CPU.
namespace {

struct SimdAvx512 {
  using F = __m512;
  using Mask = __mmask16;
  static constexpr int kLanes = 16;
  static constexpr int kTileRows = 8;   // 8 x 3 accumulators, 3 loads and broadcasts: 32 registers
  static constexpr int kGroupRows = 4;  // of 4 accumulators, see attention_decode_body.h

  static F Zero() { return _mm512_setzero_ps(); }
  static F Set(float x) { return _mm512_set1_ps(x); }
  static F Load(const float* p) { return _mm512_loadu_ps(p); }
  static void Store(float* p, F x) { _mm512_storeu_ps(p, x); }
  static F Add(F a, F b) { return _mm512_add_ps(a, b); }
  static F Sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F Div(F a, F b) { return _mm512_div_ps(a, b); }
  static F Fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  // b if either is NaN.
  static F Max(F a, F b) { return _mm512_max_ps(a, b); }
  static F Min(F a, F b) { return _mm512_min_ps(a, b); }
  static F Round(F x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  // x · 2^n for whole n in [-126, 127].
  static F ScaleByPowerOf2(F x, F n) { return _mm512_scalef_ps(x, n); }

  static Mask Less(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  static Mask GreaterEqual(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
  static Mask Greater(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
  static Mask IsNan(F a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
  static F Select(Mask m, F yes, F no) { return _mm512_mask_blend_ps(m, no, yes); }
  static F ZeroWhere(Mask m, F x) {
    return _mm512_maskz_mov_ps(static_cast<Mask>(~static_cast<unsigned>(m)), x);
  }
  static unsigned Bits(Mask m) { return m; }
  // Lane i is set if bit i is.
  static Mask MaskOf(unsigned bits) { return static_cast<Mask>(bits); }

  static float SumOf(F x) { return _mm512_reduce_add_ps(x); }
  static float MaxOf(F x) { return _mm512_reduce_max_ps(x); }
  // out[i] = sum of the lanes of a_i.
  static void SumOf4(F a0, F a1, F a2, F a3, float* out) {
    const F s01 = _mm512_add_ps(_mm512_unpacklo_ps(a0, a1), _mm512_unpackhi_ps(a0, a1));
    const F s23 = _mm512_add_ps(_mm512_unpacklo_ps(a2, a3), _mm512_unpackhi_ps(a2, a3));
    // Each quarter: its sums of a0, a1, a2, a3.
    const F s = _mm512_add_ps(_mm512_shuffle_ps(s01, s23, 0x44), _mm512_shuffle_ps(s01, s23, 0xEE));
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
  }

  // First n lanes, 0 < n < kLanes; the other lanes read as zero and are not written.
  static __mmask16 FirstLanes(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
  static F LoadFirst(const float* p, int n) { return _mm512_maskz_loadu_ps(FirstLanes(n), p); }
  static void StoreFirst(float* p, int n, F x) { _mm512_mask_storeu_ps(p, FirstLanes(n), x); }

  static F WidenBf16(__m256i half) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
  }
  static F LoadBf16(const std::uint16_t* p) {
    return WidenBf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  // Of 2 kLanes elements: those with even indices, those with odd indices. Cheaper than LoadBf16
  // where the order does not matter.
  static F LoadEvenBf16(const std::uint16_t* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
  }
  static F LoadOddBf16(const std::uint16_t* p) {
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32(-0x10000)));
  }
  static F LoadF16(const std::uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  // To nearest even; a NaN stays a NaN.
  static void StoreBf16(std::uint16_t* p, F x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    rounded = _mm512_mask_or_epi32(rounded, IsNan(x), bits, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
  }
  static void StoreF16(std::uint16_t* p, F x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};

}  // namespace
}  // namespace thresher

#endif
