// Products on panels for AVX-512 with bf16 instructions: bf16 input, f32 sums.
//
// Integers of up to eight bits are exact in bf16, so a quantised weight is multiplied as integers:
// for each group of columns, out += scale · Σ x·integer + minimum · Σ x, the scale and the minimum
// in f32. No rounding of weights is added to that of the file.
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

constexpr int kMaxRows = 8;     // rows of input that share one unpacking of a weight
constexpr int kStripTiles = 3;  // with kMaxRows: 24 of the 32 registers hold sums
constexpr int kIntegerGroup = 32;

__m512 LoadFirst(const float* at, std::int64_t count) {
  if (count >= kTileRows) return _mm512_loadu_ps(at);
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1u), at);
}

void StoreFirst(float* at, __m512 value, std::int64_t count) {
  if (count >= kTileRows) return _mm512_storeu_ps(at, value);
  _mm512_mask_storeu_ps(at, static_cast<__mmask16>((1u << count) - 1u), value);
}

// Two neighbouring columns of x, or one and a zero, in every lane.
__m512bh BroadcastPair(const std::uint16_t* x) {
  std::int32_t pair;
  __builtin_memcpy(&pair, x, sizeof pair);
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}
__m512bh BroadcastLast(const std::uint16_t* x) {
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(*x));
}

// [lane r] = (low[r], high[r]) as bf16, for numbers that bf16 holds exactly: their upper halves.
__m512i JoinExact(__m512 low, __m512 high) {
  constexpr int kOfHigh = 32;
  const __m512i upper_halves =
      _mm512_set_epi16(31 + kOfHigh, 31, 29 + kOfHigh, 29, 27 + kOfHigh, 27, 25 + kOfHigh, 25,
                       23 + kOfHigh, 23, 21 + kOfHigh, 21, 19 + kOfHigh, 19, 17 + kOfHigh, 17,
                       15 + kOfHigh, 15, 13 + kOfHigh, 13, 11 + kOfHigh, 11, 9 + kOfHigh, 9,
                       7 + kOfHigh, 7, 5 + kOfHigh, 5, 3 + kOfHigh, 3, 1 + kOfHigh, 1);
  return _mm512_permutex2var_epi16(_mm512_castps_si512(low), upper_halves,
                                   _mm512_castps_si512(high));
}

// A source yields the weights of one tile: kSteps pairs of columns from each Load.

struct Bf16Source {
  static constexpr int kSteps = 1, kColumnBytes = 32;
  const std::byte* values;

  Bf16Source() = default;
  Bf16Source(const PanelView& panel, const std::byte* tile) : values(tile + panel.values_at) {}
  __m512i Load(std::int64_t col) const { return _mm512_loadu_si512(values + col * kTileRows * 2); }
  __m512i Pair(__m512i raw, int) const { return raw; }
};

struct Int8Source {
  static constexpr int kSteps = 2, kColumnBytes = 16;
  const std::byte* values;

  Int8Source() = default;
  Int8Source(const PanelView& panel, const std::byte* tile) : values(tile + panel.values_at) {}
  const std::byte* Load(std::int64_t col) const { return values + col * kTileRows; }
  __m512i Pair(const std::byte* at, int step) const {
    const std::byte* even = at + 2 * step * kTileRows;
    return JoinExact(Int8ToFloat(even), Int8ToFloat(even + kTileRows));
  }
};

struct Int4Source {
  static constexpr int kSteps = 4, kColumnBytes = 8;
  const std::byte* values;
  // The value of each nibble in bf16, twice: the look-up reads five bits, and the fifth belongs to
  // the next nibble.
  __m512i numbers;

  Int4Source() = default;
  Int4Source(const PanelView& panel, const std::byte* tile) : values(tile + panel.values_at) {
    const __m512i index =
        _mm512_and_si512(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                         _mm512_set1_epi32(15));
    const __m512 number =
        _mm512_cvtepi32_ps(_mm512_add_epi32(index, _mm512_set1_epi32(panel.lowest)));
    const __m256i halves =
        _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(number), 16));
    numbers = _mm512_broadcast_i64x4(halves);
  }
  __m512i Load(std::int64_t col) const { return _mm512_loadu_si512(values + col * kTileRows / 2); }
  __m512i Pair(__m512i raw, int step) const {
    return _mm512_permutexvar_epi16(_mm512_srli_epi16(raw, static_cast<unsigned>(4 * step)),
                                    numbers);
  }
};

// Inlined by force: GCC 12 takes a call that only fetches for one without effect and drops it.
[[gnu::always_inline]] inline void Prefetch(const std::byte* line, std::int64_t ahead) {
  _mm_prefetch(line + ahead, _MM_HINT_T1);
  _mm_prefetch(line + kFetchNearBytes, _MM_HINT_T0);
}

// sums[m][n] += x[m][col …] · weights of tile n, over kSteps pairs of columns.
template <class Source, int MR, int NT>
[[gnu::always_inline]] inline void AddChunk(const Source (&sources)[NT], const std::uint16_t* x,
                                            std::int64_t x_stride, std::int64_t col,
                                            std::int64_t ahead, __m512 (&sums)[MR][NT]) {
  decltype(sources[0].Load(0)) raw[NT];
#pragma GCC unroll 8
  for (int n = 0; n < NT; ++n) {
    raw[n] = sources[n].Load(col);
    Prefetch(sources[n].values + col * Source::kColumnBytes, ahead);
  }
#pragma GCC unroll 8
  for (int step = 0; step < Source::kSteps; ++step) {
    __m512bh weights[NT];
#pragma GCC unroll 8
    for (int n = 0; n < NT; ++n) {
      weights[n] = reinterpret_cast<__m512bh>(sources[n].Pair(raw[n], step));
    }
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m) {
      const __m512bh input = BroadcastPair(x + m * x_stride + col + 2 * step);
#pragma GCC unroll 8
      for (int n = 0; n < NT; ++n) {
        sums[m][n] = _mm512_dpbf16_ps(sums[m][n], weights[n], input);
      }
    }
  }
}

template <int MR, int NT>
[[gnu::always_inline]] inline void Clear(__m512 (&sums)[MR][NT]) {
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
    for (int n = 0; n < NT; ++n) sums[m][n] = _mm512_setzero_ps();
  }
}

template <int MR, int NT>
[[gnu::always_inline]] inline void StoreBlock(const __m512 (&sums)[MR][NT], const float* bias,
                                              float* out, std::int64_t out_stride,
                                              std::int64_t rows) {
#pragma GCC unroll 8
  for (int n = 0; n < NT; ++n) {
    const std::int64_t left = rows - n * kTileRows;
    const __m512 added =
        bias != nullptr ? LoadFirst(bias + n * kTileRows, left) : _mm512_setzero_ps();
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m) {
      StoreFirst(out + m * out_stride + n * kTileRows, _mm512_add_ps(sums[m][n], added), left);
    }
  }
}

// Integers: tiles [first, first + NT), MR rows of input.
template <class Source, int MR, int NT, int kGroup>
void RunIntegers(const PanelView& panel, const PanelProduct& product, std::int64_t first,
                 std::int64_t row, std::int64_t ahead) {
  const std::uint16_t* x = static_cast<const std::uint16_t*>(product.x) + row * product.x_stride;
  const std::int64_t num_groups = panel.cols / kGroup;
  const float* group_sums = product.group_sums + row * num_groups;
  const std::byte* tiles[NT];
  Source sources[NT];
#pragma GCC unroll 8
  for (int n = 0; n < NT; ++n) {
    tiles[n] = panel.tiles + (first + n) * panel.tile_bytes;
    sources[n] = Source(panel, tiles[n]);
  }
  __m512 sums[MR][NT];
  Clear(sums);
  for (std::int64_t group = 0; group < num_groups; ++group) {
    __m512 dots[MR][NT];
    Clear(dots);
#pragma GCC unroll 1
    for (int col = 0; col < kGroup; col += 2 * Source::kSteps) {
      AddChunk(sources, x, product.x_stride, group * kGroup + col, ahead, dots);
    }
#pragma GCC unroll 8
    for (int n = 0; n < NT; ++n) {
      const __m512 scale = LoadScales(panel, tiles[n], group);
#pragma GCC unroll 8
      for (int m = 0; m < MR; ++m) sums[m][n] = _mm512_fmadd_ps(dots[m][n], scale, sums[m][n]);
      if (panel.has_minima) {
        const __m512 minimum = LoadScales(panel, tiles[n] + panel.minima_at, group);
#pragma GCC unroll 8
        for (int m = 0; m < MR; ++m) {
          const __m512 input = _mm512_set1_ps(group_sums[m * num_groups + group]);
          sums[m][n] = _mm512_fmadd_ps(minimum, input, sums[m][n]);
        }
      }
    }
  }
  StoreBlock(sums, product.bias != nullptr ? product.bias + first * kTileRows : nullptr,
             product.out + row * product.out_stride + first * kTileRows, product.out_stride,
             panel.rows - first * kTileRows);
}

// Plain bf16: tiles [first, first + NT) of the strip, MR rows of input.
template <int MR, int NT>
void RunStrip(const StripProduct& product, std::int64_t first, std::int64_t row,
              std::int64_t ahead) {
  const std::uint16_t* x = static_cast<const std::uint16_t*>(product.x) + row * product.x_stride;
  float* out = product.out + row * product.out_stride + first * kTileRows;
  const std::int64_t rows = product.rows - first * kTileRows;
  Bf16Source sources[NT];
#pragma GCC unroll 8
  for (int n = 0; n < NT; ++n) {
    sources[n].values = product.strip + (first + n) * product.tile_bytes;
  }
  __m512 sums[MR][NT];
  Clear(sums);
  if (product.accumulate) {
    for (int n = 0; n < NT; ++n) {
      for (int m = 0; m < MR; ++m) {
        sums[m][n] = LoadFirst(out + m * product.out_stride + n * kTileRows, rows - n * kTileRows);
      }
    }
  }
  const std::int64_t pairs_end = product.cols / 2 * 2;
  for (std::int64_t col = 0; col < pairs_end; col += 2) {
    AddChunk(sources, x, product.x_stride, col, ahead, sums);
  }
  if (pairs_end < product.cols) {
    for (int n = 0; n < NT; ++n) {
      const __m512bh weights = reinterpret_cast<__m512bh>(sources[n].Load(pairs_end));
      for (int m = 0; m < MR; ++m) {
        const __m512bh input = BroadcastLast(x + m * product.x_stride + pairs_end);
        sums[m][n] = _mm512_dpbf16_ps(sums[m][n], weights, input);
      }
    }
  }
  StoreBlock(sums, product.bias != nullptr ? product.bias + first * kTileRows : nullptr, out,
             product.out_stride, rows);
}

// Calls `block` for `count` rows of input (1…MR) as a constant.
template <int MR, class Block>
void WithRows(std::int64_t count, const Block& block) {
  if constexpr (MR > 1) {
    if (count < MR) return WithRows<MR - 1>(count, block);
  }
  block.template operator()<MR>();
}

// Calls `block` with rows and tiles as constants, for tiles [begin, end), at most NT at once, and
// for all rows of input, at most MR at once and as equal as they can be. Its last argument is the
// tiles from which the first of these calls fetches ahead, 0 at the end.
template <int MR, int NT, class Block>
void ForBlocks(std::int64_t num_rows, std::int64_t begin, std::int64_t end, const Block& block) {
  const std::int64_t pieces = (num_rows + MR - 1) / MR;
  std::int64_t first = begin;
  for (; first + NT <= end; first += NT) {
    for (std::int64_t i = 0; i < pieces; ++i) {
      const std::int64_t row = num_rows * i / pieces;
      const std::int64_t ahead = i == 0 && first + NT < end ? NT : 0;
      WithRows<MR>(num_rows * (i + 1) / pieces - row,
                   [&]<int kRows>() { block.template operator()<kRows, NT>(first, row, ahead); });
    }
  }
  if constexpr (NT > 1) {
    if (first < end) ForBlocks<MR, NT - 1>(num_rows, first, end, block);
  }
}

// Few rows want several tiles side by side, to hide the latency of one sum's chain.
template <class Block>
void ForFewRows(std::int64_t num_rows, std::int64_t begin, std::int64_t end, const Block& block) {
  if (num_rows == 1) return ForBlocks<1, 4>(num_rows, begin, end, block);
  if (num_rows <= 4) return ForBlocks<4, 2>(num_rows, begin, end, block);
  ForBlocks<kMaxRows, 1>(num_rows, begin, end, block);
}

template <class Source, int kGroup>
void MultiplyIntegers(const PanelView& panel, const PanelProduct& product, std::int64_t begin,
                      std::int64_t end) {
  ForFewRows(product.num_rows, begin, end,
             [&]<int MR, int NT>(std::int64_t first, std::int64_t row, std::int64_t ahead) {
               RunIntegers<Source, MR, NT, kGroup>(panel, product, first, row,
                                                   ahead * panel.tile_bytes);
             });
}

void MultiplyStrip(const StripProduct& product) {
  const std::int64_t tiles = (product.rows + kTileRows - 1) / kTileRows;
  ForBlocks<kMaxRows, kStripTiles>(
      product.num_rows, 0, tiles,
      [&]<int MR, int NT>(std::int64_t first, std::int64_t row, std::int64_t ahead) {
        RunStrip<MR, NT>(product, first, row, ahead * product.tile_bytes);
      });
}

void MultiplyBf16(const PanelView& panel, const PanelProduct& product, std::int64_t begin,
                  std::int64_t end) {
  const std::int64_t skipped = begin * kTileRows;
  MultiplyStrip({.strip = panel.tiles + begin * panel.tile_bytes + panel.values_at,
                 .tile_bytes = panel.tile_bytes,
                 .rows = (end * kTileRows < panel.rows ? end * kTileRows : panel.rows) - skipped,
                 .x = product.x,
                 .x_stride = product.x_stride,
                 .num_rows = product.num_rows,
                 .cols = panel.cols,
                 .accumulate = false,
                 .bias = product.bias != nullptr ? product.bias + skipped : nullptr,
                 .out = product.out + skipped,
                 .out_stride = product.out_stride});
}

void Multiply(const PanelView& panel, const PanelProduct& product, std::int64_t tile_begin,
              std::int64_t tile_end) {
  if (panel.form == PanelForm::kInt4) {
    MultiplyIntegers<Int4Source, kIntegerGroup>(panel, product, tile_begin, tile_end);
  } else if (panel.form == PanelForm::kBf16) {
    MultiplyBf16(panel, product, tile_begin, tile_end);
  } else if (panel.group == kIntegerGroup) {
    MultiplyIntegers<Int8Source, kIntegerGroup>(panel, product, tile_begin, tile_end);
  } else {
    MultiplyIntegers<Int8Source, kIntegerGroup / 2>(panel, product, tile_begin, tile_end);
  }
}

}  // namespace

PanelKernels PanelKernelsAvx512Bf16() {
  return {.bf16_input = true,
          .strip_tiles = kStripTiles,
          .multiply = Multiply,
          .unpack = UnpackTileBf16,
          .multiply_strip = MultiplyStrip,
          .sum_groups = SumGroupsBf16};
}

}  // namespace thresher
