// Products with f32 input, written once for AVX2 and AVX-512. V is the vector type of the including
// file; it lies in that file's unnamed namespace, which keeps every instantiation out of reach of
// the linker, as files compiled for a wider instruction set must.
//
// A weight is unpacked to scale · integer + minimum in f32, rounded once as GGUF's own value, then
// used for every row of input. So `multiply` gives bitwise what unpacking and multiply_strip give.
#pragma once

#include "kernels/cpu/panel_view.h"

namespace thresher {

// Where NV vectors' worth of output rows get their weights: one Source each. kGroup columns share
// what BeginGroup loads; kChunk columns share what Load returns, a line of the tile.
template <class V>
struct F32Source {
  static constexpr int kGroup = 1, kChunk = 1;
  static constexpr bool kFetches = false;  // long enough for the hardware to foresee
  using Raw = typename V::Reg;
  const std::byte* values;

  static F32Source At(const PanelView& panel, const std::byte* tile, int lane) {
    return {tile + panel.values_at + lane * 4};
  }
  void BeginGroup(std::int64_t) {}
  const std::byte* Line(std::int64_t col) const { return values + col * kTileRows * 4; }
  Raw Load(std::int64_t col) const { return V::Load(Line(col)); }
  typename V::Reg Value(Raw raw, int) const { return raw; }
};

template <class V>
struct Bf16Source {
  static constexpr int kGroup = 2, kChunk = 2;
  static constexpr bool kFetches = true;
  using Raw = typename V::Int;
  const std::byte* values;

  static Bf16Source At(const PanelView& panel, const std::byte* tile, int lane) {
    return {tile + panel.values_at + lane * 4};
  }
  void BeginGroup(std::int64_t) {}
  const std::byte* Line(std::int64_t col) const { return values + col * kTileRows * 2; }
  Raw Load(std::int64_t col) const { return V::LoadInt(Line(col)); }
  typename V::Reg Value(Raw raw, int step) const { return V::Bf16(raw, step); }
};

// What kInt8 and kInt4 share: the scale and the minimum of a group.
template <class V>
struct GroupScales {
  const std::byte* scales;
  const std::byte* minima;  // null: lowest · scale
  int element_bytes;
  float lowest;
  typename V::Reg scale, minimum;

  static GroupScales At(const PanelView& panel, const std::byte* tile, int lane) {
    const int bytes = panel.half_scales ? 2 : 4;
    GroupScales result;
    result.scales = tile + lane * bytes;
    result.minima = panel.has_minima ? tile + panel.minima_at + lane * bytes : nullptr;
    result.element_bytes = bytes;
    result.lowest = static_cast<float>(panel.lowest);
    result.scale = result.minimum = V::Zero();
    return result;
  }
  typename V::Reg LoadAt(const std::byte* first, std::int64_t group) const {
    const std::byte* at = first + group * kTileRows * element_bytes;
    return element_bytes == 2 ? V::LoadHalf(at) : V::Load(at);
  }
  void Begin(std::int64_t group) {
    scale = LoadAt(scales, group);
    minimum = minima != nullptr ? LoadAt(minima, group) : V::Multiply(scale, V::Broadcast(&lowest));
  }
};

template <class V, int kColumns>
struct Int8Source {
  static constexpr int kGroup = kColumns, kChunk = 4;
  static constexpr bool kFetches = true;
  using Raw = const std::byte*;
  const std::byte* values;
  GroupScales<V> group;

  static Int8Source At(const PanelView& panel, const std::byte* tile, int lane) {
    return {tile + panel.values_at + lane, GroupScales<V>::At(panel, tile, lane)};
  }
  void BeginGroup(std::int64_t col) { group.Begin(col / kGroup); }
  const std::byte* Line(std::int64_t col) const { return values + col * kTileRows; }
  Raw Load(std::int64_t col) const { return Line(col); }
  typename V::Reg Value(Raw raw, int step) const {
    return V::MultiplyAdd(V::LoadInt8(raw + step * kTileRows), group.scale, group.minimum);
  }
};

template <class V>
struct Int4Source {
  static constexpr int kGroup = 32, kChunk = 8;
  static constexpr bool kFetches = true;
  using Raw = typename V::Int;
  const std::byte* values;
  GroupScales<V> group;

  static Int4Source At(const PanelView& panel, const std::byte* tile, int lane) {
    return {tile + panel.values_at + lane * 4, GroupScales<V>::At(panel, tile, lane)};
  }
  void BeginGroup(std::int64_t col) { group.Begin(col / kGroup); }
  const std::byte* Line(std::int64_t col) const { return values + col * kTileRows / 2; }
  Raw Load(std::int64_t col) const { return V::LoadInt(Line(col)); }
  typename V::Reg Value(Raw raw, int step) const {
    const int nibble = step / 2 + (step % 2) * 4;
    return V::MultiplyAdd(V::Nibble(raw, nibble), group.scale, group.minimum);
  }
};

// One block of outputs: MR rows of input times NV vectors of output rows.
template <class V, class Source, int MR, int NV>
struct F32Block {
  using Reg = typename V::Reg;

  // Columns [0, cols); x at its first column.
  static void Accumulate(Source (&sources)[NV], const float* x, std::int64_t x_stride,
                         std::int64_t cols, std::int64_t ahead, Reg (&sums)[MR][NV]) {
    const std::int64_t whole = cols / Source::kGroup * Source::kGroup;
    for (std::int64_t first = 0; first < whole; first += Source::kGroup) {
#pragma GCC unroll 8
      for (int n = 0; n < NV; ++n) sources[n].BeginGroup(first);
#pragma GCC unroll 1
      for (std::int64_t col = first; col < first + Source::kGroup; col += Source::kChunk) {
        AddChunk(sources, x + col, x_stride, col, Source::kChunk, ahead, sums);
      }
    }
    // Only pairs of columns can be cut short.
    if (whole < cols) AddChunk(sources, x + whole, x_stride, whole, 1, ahead, sums);
  }

  [[gnu::always_inline]] static void AddChunk(Source (&sources)[NV], const float* x,
                                              std::int64_t x_stride, std::int64_t col, int steps,
                                              std::int64_t ahead, Reg (&sums)[MR][NV]) {
    typename Source::Raw raw[NV];
#pragma GCC unroll 8
    for (int n = 0; n < NV; ++n) {
      raw[n] = sources[n].Load(col);
      if (Source::kFetches) V::Prefetch(sources[n].Line(col), ahead);
    }
#pragma GCC unroll 8
    for (int step = 0; step < Source::kChunk; ++step) {
      if (step >= steps) break;
      Reg weights[NV];
#pragma GCC unroll 8
      for (int n = 0; n < NV; ++n) weights[n] = sources[n].Value(raw[n], step);
#pragma GCC unroll 8
      for (int m = 0; m < MR; ++m) {
        const Reg input = V::Broadcast(x + m * x_stride + step);
#pragma GCC unroll 8
        for (int n = 0; n < NV; ++n) {
          sums[m][n] = V::MultiplyAdd(weights[n], input, sums[m][n]);
        }
      }
    }
  }

  // `rows` may end within the last vector.
  static void Run(Source (&sources)[NV], const float* x, std::int64_t x_stride, std::int64_t cols,
                  std::int64_t ahead, bool accumulate, const float* bias, float* out,
                  std::int64_t out_stride, std::int64_t rows) {
    Reg sums[MR][NV];
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 8
      for (int n = 0; n < NV; ++n) {
        const std::int64_t left = rows - n * V::kLanes;
        sums[m][n] = accumulate && left > 0
                         ? V::LoadFirst(out + m * out_stride + n * V::kLanes, left)
                         : V::Zero();
      }
    }
    Accumulate(sources, x, x_stride, cols, ahead, sums);
#pragma GCC unroll 8
    for (int n = 0; n < NV; ++n) {
      const std::int64_t left = rows - n * V::kLanes;
      if (left <= 0) break;
      const Reg added = bias != nullptr ? V::LoadFirst(bias + n * V::kLanes, left) : V::Zero();
#pragma GCC unroll 8
      for (int m = 0; m < MR; ++m) {
        V::StoreFirst(out + m * out_stride + n * V::kLanes, V::Add(sums[m][n], added), left);
      }
    }
  }
};

// Everything one block needs to know of its product.
struct F32Job {
  PanelView panel;
  const float* x;
  std::int64_t x_stride;
  std::int64_t num_rows;
  std::int64_t cols;
  bool accumulate;
  const float* bias;
  float* out;
  std::int64_t out_stride;
};

// `count` rows of input (1…MR) times the NV vectors that start at vector `first`, fetching what
// lies `ahead` bytes further on.
template <class V, class Source, int MR, int NV>
void RunRows(const F32Job& job, std::int64_t first, std::int64_t row, std::int64_t count,
             std::int64_t ahead) {
  if constexpr (MR > 1) {
    if (count < MR) return RunRows<V, Source, MR - 1, NV>(job, first, row, count, ahead);
  }
  constexpr int kVectorsPerTile = kTileRows / V::kLanes;
  Source sources[NV];
  for (int n = 0; n < NV; ++n) {
    const std::int64_t vector = first + n;
    sources[n] =
        Source::At(job.panel, job.panel.tiles + vector / kVectorsPerTile * job.panel.tile_bytes,
                   static_cast<int>(vector % kVectorsPerTile) * V::kLanes);
  }
  const std::int64_t out_row = first * V::kLanes;
  F32Block<V, Source, MR, NV>::Run(
      sources, job.x + row * job.x_stride, job.x_stride, job.cols, ahead, job.accumulate,
      job.bias != nullptr ? job.bias + out_row : nullptr, job.out + row * job.out_stride + out_row,
      job.out_stride, job.panel.rows - out_row);
}

// All rows of input, at most MR at a time and as equal as they can be, for vectors [begin, end).
template <class V, class Source, int MR, int NV>
void RunVectors(const F32Job& job, std::int64_t begin, std::int64_t end) {
  const std::int64_t pieces = (job.num_rows + MR - 1) / MR;
  constexpr int kTiles = NV * V::kLanes < kTileRows ? 1 : NV * V::kLanes / kTileRows;
  std::int64_t first = begin;
  for (; first + NV <= end; first += NV) {
    for (std::int64_t i = 0; i < pieces; ++i) {
      const std::int64_t row = job.num_rows * i / pieces;
      const bool fetches = i == 0 && first + NV < end;
      RunRows<V, Source, MR, NV>(job, first, row, job.num_rows * (i + 1) / pieces - row,
                                 fetches ? kTiles * job.panel.tile_bytes : 0);
    }
  }
  if constexpr (NV > 1) {
    if (first < end) RunVectors<V, Source, MR, NV - 1>(job, first, end);
  }
}

// Few rows want many vectors side by side, to hide the latency of one accumulator's chain.
template <class V, class Source>
void RunFewRows(const F32Job& job, std::int64_t begin, std::int64_t end) {
  if (job.num_rows == 1) return RunVectors<V, Source, 1, 4>(job, begin, end);
  if (job.num_rows <= 4) return RunVectors<V, Source, 4, 2>(job, begin, end);
  RunVectors<V, Source, 8, V::kWideVectors>(job, begin, end);
}

template <class V>
void MultiplyPanelF32(const PanelView& panel, const PanelProduct& product, std::int64_t tile_begin,
                      std::int64_t tile_end) {
  constexpr int kVectorsPerTile = kTileRows / V::kLanes;
  const F32Job job{.panel = panel,
                   .x = static_cast<const float*>(product.x),
                   .x_stride = product.x_stride,
                   .num_rows = product.num_rows,
                   .cols = panel.cols,
                   .accumulate = false,
                   .bias = product.bias,
                   .out = product.out,
                   .out_stride = product.out_stride};
  const std::int64_t begin = tile_begin * kVectorsPerTile, end = tile_end * kVectorsPerTile;
  switch (panel.form) {
    case PanelForm::kF32:
      return RunFewRows<V, F32Source<V>>(job, begin, end);
    case PanelForm::kBf16:
      return RunFewRows<V, Bf16Source<V>>(job, begin, end);
    case PanelForm::kInt8:
      if (panel.group == 16) return RunFewRows<V, Int8Source<V, 16>>(job, begin, end);
      return RunFewRows<V, Int8Source<V, 32>>(job, begin, end);
    case PanelForm::kInt4:
      return RunFewRows<V, Int4Source<V>>(job, begin, end);
  }
}

template <class V, class Source>
void UnpackVector(const PanelView& panel, const std::byte* tile, int lane, std::int64_t col_begin,
                  std::int64_t col_end, float* strip) {
  Source source = Source::At(panel, tile, lane);
  for (std::int64_t first = col_begin; first < col_end; first += Source::kGroup) {
    source.BeginGroup(first);
    for (std::int64_t col = first; col < first + Source::kGroup; col += Source::kChunk) {
      const typename Source::Raw raw = source.Load(col);
      float* at = strip + (col - col_begin) * kTileRows + lane;
#pragma GCC unroll 8
      for (int step = 0; step < Source::kChunk; ++step) {
        if (col + step < col_end) V::Store(at + step * kTileRows, source.Value(raw, step));
      }
    }
  }
}

template <class V>
void UnpackTileF32(const PanelView& panel, std::int64_t tile_index, std::int64_t col_begin,
                   std::int64_t col_end, std::byte* strip) {
  const std::byte* tile = panel.tiles + tile_index * panel.tile_bytes;
  float* out = reinterpret_cast<float*>(strip);
  for (int lane = 0; lane < kTileRows; lane += V::kLanes) {
    if (panel.form == PanelForm::kInt4) {
      UnpackVector<V, Int4Source<V>>(panel, tile, lane, col_begin, col_end, out);
    } else if (panel.form == PanelForm::kBf16) {
      UnpackVector<V, Bf16Source<V>>(panel, tile, lane, col_begin, col_end, out);
    } else if (panel.form == PanelForm::kF32) {
      UnpackVector<V, F32Source<V>>(panel, tile, lane, col_begin, col_end, out);
    } else if (panel.group == 16) {
      UnpackVector<V, Int8Source<V, 16>>(panel, tile, lane, col_begin, col_end, out);
    } else {
      UnpackVector<V, Int8Source<V, 32>>(panel, tile, lane, col_begin, col_end, out);
    }
  }
}

template <class V>
void MultiplyStripF32(const StripProduct& product) {
  F32Job job{.panel = {},
             .x = static_cast<const float*>(product.x),
             .x_stride = product.x_stride,
             .num_rows = product.num_rows,
             .cols = product.cols,
             .accumulate = product.accumulate,
             .bias = product.bias,
             .out = product.out,
             .out_stride = product.out_stride};
  job.panel.tiles = product.strip;
  job.panel.tile_bytes = product.tile_bytes;
  job.panel.rows = product.rows;
  constexpr int kVectorsPerTile = kTileRows / V::kLanes;
  const std::int64_t vectors = (product.rows + kTileRows - 1) / kTileRows * kVectorsPerTile;
  RunVectors<V, F32Source<V>, V::kStripRows, V::kStripVectors>(job, 0, vectors);
}

}  // namespace thresher
