#include "kernels/cpu/panel.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/cpu/half_float.h"

namespace thresher {
namespace {

constexpr std::int64_t kLine = 64;
std::int64_t WholeLines(std::int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

PanelView LayOutPlain(std::int64_t cols, PanelForm form) {
  PanelView view;
  view.form = form;
  view.tile_bytes = form == PanelForm::kF32 ? cols * kTileRows * 4 : (cols + 1) / 2 * kTileRows * 4;
  return view;
}

PanelView LayOutIntegers(std::int64_t cols, const GroupLayout& groups) {
  PanelView view;
  view.form = groups.highest - groups.lowest < 16 ? PanelForm::kInt4 : PanelForm::kInt8;
  view.group = groups.size;
  view.lowest = view.form == PanelForm::kInt4 ? groups.lowest : 0;
  view.half_scales = groups.half_scales;
  view.has_minima = groups.has_minimum;
  const std::int64_t scales =
      WholeLines(cols / groups.size * kTileRows * (groups.half_scales ? 2 : 4));
  view.minima_at = scales;
  view.values_at = groups.has_minimum ? 2 * scales : scales;
  const std::int64_t values = cols * kTileRows;
  view.tile_bytes = view.values_at + (view.form == PanelForm::kInt4 ? values / 2 : values);
  return view;
}

// Writes tile row `lane` of a panel's tile.
class TileRowWriter {
 public:
  TileRowWriter(const PanelView& view, std::byte* tile, int lane)
      : view_(view), tile_(tile), lane_(lane) {}

  void WritePlain(const float* values) {
    for (std::int64_t col = 0; col < view_.cols; ++col) {
      if (view_.form == PanelForm::kF32) {
        Put(tile_, col * kTileRows + lane_, values[col]);
      } else {
        Put(tile_, (col / 2 * kTileRows + lane_) * 2 + col % 2, FloatToBf16(values[col]));
      }
    }
  }

  void WriteScales(std::span<const float> scales, std::int64_t at) {
    for (std::size_t group = 0; group < scales.size(); ++group) {
      const std::int64_t index = static_cast<std::int64_t>(group) * kTileRows + lane_;
      if (view_.half_scales) {
        Put(tile_ + at, index, ExactF16(scales[group]));
      } else {
        Put(tile_ + at, index, scales[group]);
      }
    }
  }

  void WriteIntegers(std::span<const std::int8_t> integers) {
    std::byte* values = tile_ + view_.values_at;
    if (view_.form == PanelForm::kInt8) {
      for (std::size_t col = 0; col < integers.size(); ++col) {
        Put(values, static_cast<std::int64_t>(col) * kTileRows + lane_, integers[col]);
      }
      return;
    }
    for (std::size_t col = 0; col < integers.size(); col += 8) {
      std::uint32_t dword = 0;
      for (std::size_t i = 0; i < 8; ++i) {
        const std::size_t nibble = i / 2 + i % 2 * 4;
        dword |= static_cast<std::uint32_t>(integers[col + i] - view_.lowest) << (4 * nibble);
      }
      Put(values, static_cast<std::int64_t>(col / 8) * kTileRows + lane_, dword);
    }
  }

 private:
  template <typename T>
  static void Put(std::byte* array, std::int64_t index, T value) {
    std::memcpy(array + index * static_cast<std::int64_t>(sizeof value), &value, sizeof value);
  }

  const PanelView& view_;
  std::byte* tile_;
  int lane_;
};

// Rows of input order are packed tile by tile; a tile's unused rows stay zero.
void PackTiles(const WeightRows& rows, const PanelView& view, std::byte* tiles, std::int64_t begin,
               std::int64_t end) {
  WeightRows::Scratch scratch;
  std::vector<float> values(view.group == 0 ? static_cast<std::size_t>(view.cols) : 0);
  std::memset(tiles + begin * view.tile_bytes, 0,
              static_cast<std::size_t>((end - begin) * view.tile_bytes));
  const std::int64_t last_row = std::min(end * kTileRows, view.rows);
  for (std::int64_t row = begin * kTileRows; row < last_row; ++row) {
    TileRowWriter writer(view, tiles + row / kTileRows * view.tile_bytes,
                         static_cast<int>(row % kTileRows));
    if (view.group == 0) {
      rows.Dequantize(row, values.data());
      writer.WritePlain(values.data());
      continue;
    }
    std::span<const std::int8_t> integers;
    std::span<const float> scales, minima;
    rows.Decode(row, scratch, integers, scales, minima);
    writer.WriteScales(scales, 0);
    if (view.has_minima) writer.WriteScales(minima, view.minima_at);
    writer.WriteIntegers(integers);
  }
}

}  // namespace

absl::StatusOr<Panel> Panel::Pack(const WeightRows& rows, PanelForm plain, WeightArena& arena,
                                  ThreadTeam& team) {
  PanelView view = rows.whole_groups() ? LayOutIntegers(rows.cols(), rows.groups())
                                       : LayOutPlain(rows.cols(), plain);
  view.rows = rows.rows();
  view.cols = rows.cols();
  const std::int64_t num_tiles = (view.rows + kTileRows - 1) / kTileRows;
  absl::StatusOr<std::shared_ptr<std::byte>> tiles = arena.Allocate(num_tiles * view.tile_bytes);
  if (!tiles.ok()) return tiles.status();
  view.tiles = tiles->get();
  team.ParallelRanges(num_tiles, view.cols * kTileRows,
                      [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                        PackTiles(rows, view, tiles->get(), begin, end);
                      });
  return Panel(view, *std::move(tiles));
}

Panel::Panel(const PanelView& view, std::shared_ptr<std::byte> tiles)
    : view_(view), tiles_(std::move(tiles)) {}

}  // namespace thresher
