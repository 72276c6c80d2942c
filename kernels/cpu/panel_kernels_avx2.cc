// Products on panels for AVX2 with FMA and F16C: f32 input.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/panel_kernels_f32.h"
#include "kernels/cpu/panel_view.h"

namespace thresher {
namespace {

struct Avx2 {
  using Reg = __m256;
  using Int = __m256i;
  static constexpr int kLanes = 8;
  // 16 registers: eight sums, or six rows of two sums, leave room for weights and scales.
  static constexpr int kWideVectors = 1;
  static constexpr int kStripRows = 6, kStripVectors = 2;

  // Inlined by force: GCC 12 takes a call that only fetches for one without effect and drops it.
  [[gnu::always_inline]] static void Prefetch(const std::byte* line, std::int64_t ahead) {
    _mm_prefetch(line + ahead, _MM_HINT_T1);
    _mm_prefetch(line + kFetchNearBytes, _MM_HINT_T0);
  }
  static Reg Zero() { return _mm256_setzero_ps(); }
  static Reg Broadcast(const float* at) { return _mm256_broadcast_ss(at); }
  static Reg Load(const void* at) { return _mm256_loadu_ps(static_cast<const float*>(at)); }
  static Int LoadInt(const void* at) { return _mm256_loadu_si256(static_cast<const __m256i*>(at)); }
  static Reg LoadHalf(const void* at) {
    return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(at)));
  }
  static Reg LoadInt8(const void* at) {
    const __m128i bytes = _mm_loadl_epi64(static_cast<const __m128i*>(at));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  }
  static Reg MultiplyAdd(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
  static Reg Multiply(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
  static Reg Add(Reg a, Reg b) { return _mm256_add_ps(a, b); }

  static Reg Bf16(Int pairs, int which) {
    const __m256i bits = which == 0 ? _mm256_slli_epi32(pairs, 16)
                                    : _mm256_and_si256(pairs, _mm256_set1_epi32(-0x10000));
    return _mm256_castsi256_ps(bits);
  }
  static Reg Nibble(Int dwords, int which) {
    const __m256i low =
        _mm256_and_si256(_mm256_srli_epi32(dwords, 4 * which), _mm256_set1_epi32(15));
    return _mm256_cvtepi32_ps(low);
  }

  static __m256i FirstLanes(std::int64_t count) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lanes);
  }
  // The first min(count, 8) lanes; others read as zero and are not written.
  static Reg LoadFirst(const float* at, std::int64_t count) {
    return count >= kLanes ? Load(at) : _mm256_maskload_ps(at, FirstLanes(count));
  }
  static void StoreFirst(float* at, Reg value, std::int64_t count) {
    if (count >= kLanes) return Store(at, value);
    _mm256_maskstore_ps(at, FirstLanes(count), value);
  }
  static void Store(float* at, Reg value) { _mm256_storeu_ps(at, value); }
};

}  // namespace

PanelKernels PanelKernelsAvx2() {
  return {.bf16_input = false,
          .strip_tiles = 1,
          .multiply = MultiplyPanelF32<Avx2>,
          .unpack = UnpackTileF32<Avx2>,
          .multiply_strip = MultiplyStripF32<Avx2>,
          .sum_groups = nullptr};
}

}  // namespace thresher
