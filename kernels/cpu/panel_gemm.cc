#include "kernels/cpu/panel_gemm.h"

#include <algorithm>

namespace thresher {
namespace {

// A strip is unpacked for this many columns at a time: three tiles of f32 then take 96 KiB, three
// of bf16 half, which leaves most of a 512 KiB or larger second-level cache to the input.
constexpr std::int64_t kStripCols = 512;
// Bytes of input that every strip passes over before the next ones are read.
constexpr std::int64_t kInputBlockBytes = 384 << 10;
// Fewer rows would not pay for unpacking a strip again.
constexpr std::int64_t kMinInputRows = 96;

struct Call {
  const void* x;
  std::int64_t num_rows;
  const float* bias;
  float* out;
  std::int64_t out_stride;
  const PanelKernels& kernels;
};

int InputBytes(const PanelKernels& kernels) { return kernels.bf16_input ? 2 : 4; }

bool IsPlainInput(const PanelView& panel, const PanelKernels& kernels) {
  return panel.form == (kernels.bf16_input ? PanelForm::kBf16 : PanelForm::kF32);
}

// Rows [row, row + count) of input times one strip of tiles, in columns [col, col + cols).
void MultiplyStrip(const Call& call, const PanelSegment& segment, std::int64_t tile,
                   std::int64_t tiles, std::int64_t row, std::int64_t count, std::int64_t col,
                   std::int64_t cols, std::byte* unpacked) {
  const PanelView& panel = segment.panel.view();
  const PanelKernels& kernels = call.kernels;
  const int element = InputBytes(kernels);
  StripProduct product;
  if (IsPlainInput(panel, kernels)) {
    product.strip =
        panel.tiles + tile * panel.tile_bytes + panel.values_at + col * kTileRows * element;
    product.tile_bytes = panel.tile_bytes;
  } else {
    product.strip = unpacked;
    product.tile_bytes = kStripCols * kTileRows * element;
    for (std::int64_t i = 0; i < tiles; ++i) {
      kernels.unpack(panel, tile + i, col, col + cols, unpacked + i * product.tile_bytes);
    }
  }
  const std::int64_t out_row = tile * kTileRows;
  const bool last = col + cols == panel.cols;
  product.rows = std::min(tiles * kTileRows, panel.rows - out_row);
  product.x = static_cast<const std::byte*>(call.x) + (row * panel.cols + col) * element;
  product.x_stride = panel.cols;
  product.num_rows = count;
  product.cols = cols;
  product.accumulate = col != 0;
  product.bias = last && call.bias != nullptr ? call.bias + segment.first_row + out_row : nullptr;
  product.out = call.out + row * call.out_stride + segment.first_row + out_row;
  product.out_stride = call.out_stride;
  kernels.multiply_strip(product);
}

// Calls `body` with the first row and the number of rows of each block of input that stays in
// cache.
template <typename Body>
void ForInputBlocks(const Call& call, std::int64_t cols, const Body& body) {
  const std::int64_t rows_in_cache = kInputBlockBytes / (cols * InputBytes(call.kernels));
  const std::int64_t block = std::max(kMinInputRows, rows_in_cache);
  const std::int64_t blocks = (call.num_rows + block - 1) / block;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::int64_t row = call.num_rows * i / blocks;
    body(row, call.num_rows * (i + 1) / blocks - row);
  }
}

void MultiplyManyRows(const Call& call, const PanelSegment& segment, std::int64_t begin,
                      std::int64_t end, std::byte* unpacked) {
  const std::int64_t cols = segment.panel.view().cols;
  ForInputBlocks(call, cols, [&](std::int64_t row, std::int64_t count) {
    for (std::int64_t tile = begin; tile < end; tile += call.kernels.strip_tiles) {
      const std::int64_t tiles = std::min<std::int64_t>(call.kernels.strip_tiles, end - tile);
      for (std::int64_t col = 0; col < cols; col += kStripCols) {
        MultiplyStrip(call, segment, tile, tiles, row, count, col, std::min(kStripCols, cols - col),
                      unpacked);
      }
    }
  });
}

void MultiplyFewRows(const Call& call, const PanelSegment& segment, std::int64_t begin,
                     std::int64_t end, const float* group_sums) {
  const PanelView& panel = segment.panel.view();
  PanelProduct product;
  product.x_stride = panel.cols;
  product.bias = call.bias != nullptr ? call.bias + segment.first_row : nullptr;
  product.out_stride = call.out_stride;
  ForInputBlocks(call, panel.cols, [&](std::int64_t row, std::int64_t count) {
    product.x = static_cast<const std::byte*>(call.x) + row * panel.cols * InputBytes(call.kernels);
    product.num_rows = count;
    if (panel.group != 0) product.group_sums = group_sums + row * (panel.cols / panel.group);
    product.out = call.out + row * call.out_stride + segment.first_row;
    call.kernels.multiply(panel, product, begin, end);
  });
}

// The size of the groups whose sums the kernels want, or 0. All panels with minima have the same.
int SummedGroup(const CpuWeight::Forms& forms, const PanelKernels& kernels) {
  if (kernels.sum_groups == nullptr) return 0;
  for (const PanelSegment& segment : forms.panels) {
    if (segment.panel.view().has_minima) return segment.panel.view().group;
  }
  return 0;
}

}  // namespace

std::int64_t StripBytes(const PanelKernels& kernels) {
  return kernels.strip_tiles * kStripCols * kTileRows * InputBytes(kernels);
}

void MultiplyPanels(const CpuWeight::Forms& forms, const void* x, std::int64_t num_rows,
                    const float* bias, float* out, GemmScratch::Parts& scratch, ThreadTeam& team) {
  const Call call{x, num_rows, bias, out, forms.rows, scratch.kernels};
  const bool few = num_rows <= scratch.max_few_rows;
  auto* group_sums = reinterpret_cast<float*>(scratch.group_sums.get());
  const int group = few ? SummedGroup(forms, scratch.kernels) : 0;
  if (group != 0) {
    team.ParallelRanges(num_rows, forms.cols, [&](std::int64_t begin, std::int64_t end, int) {
      const auto* first =
          static_cast<const std::byte*>(x) + begin * forms.cols * InputBytes(scratch.kernels);
      scratch.kernels.sum_groups(first, end - begin, forms.cols, group,
                                 group_sums + begin * (forms.cols / group));
    });
  }
  std::int64_t num_tiles = 0;
  for (const PanelSegment& segment : forms.panels) num_tiles += segment.panel.num_tiles();
  team.ForEachThread([&](int thread) {
    std::int64_t begin = num_tiles * thread / team.num_threads();
    std::int64_t end = num_tiles * (thread + 1) / team.num_threads();
    for (const PanelSegment& segment : forms.panels) {
      const std::int64_t tiles = segment.panel.num_tiles();
      const std::int64_t first = std::max<std::int64_t>(begin, 0), last = std::min(end, tiles);
      if (first < last && few) {
        MultiplyFewRows(call, segment, first, last, group_sums);
      } else if (first < last) {
        MultiplyManyRows(call, segment, first, last,
                         scratch.strips.get() + thread * scratch.strip_bytes);
      }
      begin -= tiles;
      end -= tiles;
    }
  });
}

}  // namespace thresher
