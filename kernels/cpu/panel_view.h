// How a panel lies in memory, and the products that kernels of one instruction set offer on it.
// Included by files compiled for wider instruction sets, so it holds plain data only.
//
// A panel cuts the output rows into tiles of 16. A tile holds, one after the other and each part
// padded to 64 bytes: its scales [groups, 16], its minima [groups, 16], its values. Values of
// column c and tile row r:
//   kF32   f32 [cols, 16]
//   kBf16  pairs of columns: bf16 [(cols + 1) / 2, 16, 2], an odd last one padded with zero
//   kInt8  [cols, 16]
//   kInt4  eight columns to a dword: u32 [cols / 8, 16]. Nibbles 0…3 are columns 0, 2, 4, 6 and
//          nibbles 4…7 columns 1, 3, 5, 7: shifting each 16-bit half right by 4 s then leaves
//          columns 2 s and 2 s + 1 side by side, as a bf16 dot product wants them.
// Rows beyond the last are zero.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thresher {

inline constexpr int kTileRows = 16;

// A line is fetched from memory into the second-level cache one block of tiles ahead, and into the
// first this many bytes before use. Fetching from memory straight into the first is slower by a
// third: it has few places for lines on their way.
inline constexpr int kFetchNearBytes = 1024;

enum class PanelForm : std::uint8_t { kF32, kBf16, kInt8, kInt4 };

struct PanelView {
  const std::byte* tiles = nullptr;
  std::int64_t tile_bytes = 0;
  std::int64_t minima_at = 0;  // byte in the tile; scales are at 0
  std::int64_t values_at = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  PanelForm form = PanelForm::kF32;
  // kInt8 and kInt4 only. Value = scale · (integer + lowest) + minimum for kInt4, whose integers
  // are stored from 0; lowest is 0 for kInt8.
  int group = 0;  // columns that share a scale: 32, or 16 for kInt8
  int lowest = 0;
  bool half_scales = false;  // scales and minima in f16, else f32
  bool has_minima = false;
};

// out = x · panelᵀ + bias, for the tiles that the call names.
struct PanelProduct {
  const void* x = nullptr;  // [num_rows, cols], the kernels' input type, rows x_stride apart
  std::int64_t x_stride = 0;
  std::int64_t num_rows = 0;
  const float* group_sums = nullptr;  // [num_rows, cols / group]: x summed over each group, or null
  const float* bias = nullptr;        // [panel rows] or null
  float* out = nullptr;               // first column of the panel's; rows out_stride apart
  std::int64_t out_stride = 0;
};

// Tiles as plain numbers of the input type: kF32 values for f32 input, kBf16 for bf16.
struct StripProduct {
  const std::byte* strip = nullptr;
  std::int64_t tile_bytes = 0;  // from one tile of the strip to the next
  std::int64_t rows = 0;        // output rows in the strip, the last tile's padding not counted
  const void* x = nullptr;      // [num_rows, cols], rows x_stride apart
  std::int64_t x_stride = 0;
  std::int64_t num_rows = 0;
  std::int64_t cols = 0;
  bool accumulate = false;  // add to what `out` holds, else overwrite
  const float* bias = nullptr;
  float* out = nullptr;
  std::int64_t out_stride = 0;
};

// All loops over columns run in ascending order in one f32 accumulator for each output, whatever
// the number of rows, so a row's result does not depend on its neighbours.
struct PanelKernels {
  bool bf16_input = false;
  int strip_tiles = 1;  // tiles of a strip that a product takes together
  void (*multiply)(const PanelView&, const PanelProduct&, std::int64_t tile_begin,
                   std::int64_t tile_end) = nullptr;
  // Writes columns [col_begin, col_end) of one tile as plain numbers. col_begin and col_end are
  // whole groups; col_end may be `cols`.
  void (*unpack)(const PanelView&, std::int64_t tile, std::int64_t col_begin, std::int64_t col_end,
                 std::byte* strip) = nullptr;
  void (*multiply_strip)(const StripProduct&) = nullptr;
  // x [num_rows, cols] to sums [num_rows, cols / group]. Null if `multiply` wants no sums.
  void (*sum_groups)(const void* x, std::int64_t num_rows, std::int64_t cols, int group,
                     float* sums) = nullptr;
};

// Call these only after checking that the machine has the instruction set.
PanelKernels PanelKernelsAvx2();        // f32 input
PanelKernels PanelKernelsAvx512();      // f32 input
PanelKernels PanelKernelsAvx512Bf16();  // bf16 input

}  // namespace thresher
