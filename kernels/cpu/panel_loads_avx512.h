// Loads that the AVX-512 bf16 files share. In an unnamed namespace, so that each file compiled for
// that instruction set keeps its own copy and the linker can take none elsewhere.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/panel_view.h"

namespace thresher {
namespace {

// Scales or minima of one group of a tile.
inline __m512 LoadScales(const PanelView& panel, const std::byte* first, std::int64_t group) {
  if (panel.half_scales) {
    const std::byte* at = first + group * kTileRows * 2;
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  }
  return _mm512_loadu_ps(first + group * kTileRows * 4);
}

inline __m512 Int8ToFloat(const std::byte* at) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}

}  // namespace
}  // namespace thresher
