// Tiles as plain bf16 numbers, and sums of bf16 input, for AVX-512 with bf16 instructions.
//
// GCC 12 warns of the undefined pass-through operands inside its own AVX-512 header.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/panel_loads_avx512.h"
#include "kernels/cpu/panel_view.h"
#include "kernels/cpu/unpack_bf16.h"

namespace thresher {
namespace {

// The integers of one column, in f32.
__m512 Column(const PanelView& panel, const std::byte* values, std::int64_t col) {
  if (panel.form == PanelForm::kInt8) return Int8ToFloat(values + col * kTileRows);
  const __m512i dwords = _mm512_loadu_si512(values + col / 8 * kTileRows * 4);
  const int nibble = static_cast<int>(col % 8 / 2 + col % 2 * 4);
  const __m512i low = _mm512_and_si512(_mm512_srlv_epi32(dwords, _mm512_set1_epi32(4 * nibble)),
                                       _mm512_set1_epi32(15));
  return _mm512_cvtepi32_ps(_mm512_add_epi32(low, _mm512_set1_epi32(panel.lowest)));
}

}  // namespace

void UnpackTileBf16(const PanelView& panel, std::int64_t tile_index, std::int64_t col_begin,
                    std::int64_t col_end, std::byte* strip) {
  const std::byte* tile = panel.tiles + tile_index * panel.tile_bytes;
  const std::byte* values = tile + panel.values_at;
  if (panel.form == PanelForm::kBf16) {
    const std::int64_t pair_bytes = kTileRows * 4;
    __builtin_memcpy(strip, values + col_begin / 2 * pair_bytes,
                     static_cast<std::size_t>((col_end - col_begin + 1) / 2 * pair_bytes));
    return;
  }
  const __m512i interleave =
      _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                       21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  for (std::int64_t col = col_begin; col < col_end; col += 2) {
    const std::int64_t group = col / panel.group;
    const __m512 scale = LoadScales(panel, tile, group);
    const __m512 minimum =
        panel.has_minima ? LoadScales(panel, tile + panel.minima_at, group) : _mm512_setzero_ps();
    const __m512 even = _mm512_fmadd_ps(Column(panel, values, col), scale, minimum);
    const __m512 odd = _mm512_fmadd_ps(Column(panel, values, col + 1), scale, minimum);
    const __m512i halves = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(odd, even));
    _mm512_storeu_si512(strip + (col - col_begin) * kTileRows * 2,
                        _mm512_permutexvar_epi16(interleave, halves));
  }
}

void SumGroupsBf16(const void* x, std::int64_t num_rows, std::int64_t cols, int group,
                   float* sums) {
  const auto* values = static_cast<const std::uint16_t*>(x);
  const __m512bh ones = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3f80));
  const auto mask = static_cast<__mmask32>(group == 32 ? 0xffffffffu : (1u << group) - 1u);
  const std::int64_t count = num_rows * cols / group;
  for (std::int64_t i = 0; i < count; ++i) {
    const __m512i numbers = _mm512_maskz_loadu_epi16(mask, values + i * group);
    sums[i] = _mm512_reduce_add_ps(
        _mm512_dpbf16_ps(_mm512_setzero_ps(), reinterpret_cast<__m512bh>(numbers), ones));
  }
}

}  // namespace thresher
