// Products on panels for AVX-512 without bf16 instructions: f32 input.
// GCC 12 warns of the undefined pass-through operands inside its own AVX-512 header.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/panel_kernels_f32.h"
#include "kernels/cpu/panel_view.h"

namespace thresher {
namespace {

struct Avx512 {
  using Reg = __m512;
  using Int = __m512i;
  static constexpr int kLanes = 16;
  static constexpr int kWideVectors = 2;
  static constexpr int kStripRows = 8, kStripVectors = 3;

  // Inlined by force: GCC 12 takes a call that only fetches for one without effect and drops it.
  [[gnu::always_inline]] static void Prefetch(const std::byte* line, std::int64_t ahead) {
    _mm_prefetch(line + ahead, _MM_HINT_T1);
    _mm_prefetch(line + kFetchNearBytes, _MM_HINT_T0);
  }
  static Reg Zero() { return _mm512_setzero_ps(); }
  static Reg Broadcast(const float* at) { return _mm512_set1_ps(*at); }
  static Reg Load(const void* at) { return _mm512_loadu_ps(at); }
  static Int LoadInt(const void* at) { return _mm512_loadu_si512(at); }
  static Reg LoadHalf(const void* at) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(at)));
  }
  static Reg LoadInt8(const void* at) {
    const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(at));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
  }
  static Reg MultiplyAdd(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
  static Reg Multiply(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
  static Reg Add(Reg a, Reg b) { return _mm512_add_ps(a, b); }

  static Reg Bf16(Int pairs, int which) {
    const __m512i bits = which == 0 ? _mm512_slli_epi32(pairs, 16)
                                    : _mm512_and_si512(pairs, _mm512_set1_epi32(-0x10000));
    return _mm512_castsi512_ps(bits);
  }
  // The look-up reads the low four bits of each lane only, so they need no mask.
  static Reg Nibble(Int dwords, int which) {
    const __m512 numbers = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_permutexvar_ps(_mm512_srli_epi32(dwords, static_cast<unsigned>(4 * which)),
                                 numbers);
  }

  static __mmask16 FirstLanes(std::int64_t count) {
    return static_cast<__mmask16>((1u << count) - 1u);
  }
  // The first min(count, 16) lanes; others read as zero and are not written.
  static Reg LoadFirst(const float* at, std::int64_t count) {
    return count >= kLanes ? Load(at) : _mm512_maskz_loadu_ps(FirstLanes(count), at);
  }
  static void StoreFirst(float* at, Reg value, std::int64_t count) {
    if (count >= kLanes) return Store(at, value);
    _mm512_mask_storeu_ps(at, FirstLanes(count), value);
  }
  static void Store(float* at, Reg value) { _mm512_storeu_ps(at, value); }
};

}  // namespace

PanelKernels PanelKernelsAvx512() {
  return {.bf16_input = false,
          .strip_tiles = 3,
          .multiply = MultiplyPanelF32<Avx512>,
          .unpack = UnpackTileF32<Avx512>,
          .multiply_strip = MultiplyStripF32<Avx512>,
          .sum_groups = nullptr};
}

}  // namespace thresher
