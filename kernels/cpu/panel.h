// A weight, or the part of it that came in one format, packed as panel_view.h lays it out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cpu/panel_view.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/weight_arena.h"
#include "kernels/cpu/weight_rows.h"

namespace thresher {

class Panel final {
 public:
  // The form that keeps the rows' own numbers: kInt4 or kInt8 for whole groups of integers, else
  // kBf16 or kF32 as `plain` says. ResourceExhausted if the memory cannot be had.
  static absl::StatusOr<Panel> Pack(const WeightRows& rows, PanelForm plain, WeightArena& arena,
                                    ThreadTeam& team);

  const PanelView& view() const { return view_; }
  std::int64_t num_tiles() const { return (view_.rows + kTileRows - 1) / kTileRows; }
  std::int64_t num_bytes() const { return num_tiles() * view_.tile_bytes; }

 private:
  Panel(const PanelView& view, std::shared_ptr<std::byte> tiles);
  PanelView view_;
  std::shared_ptr<std::byte> tiles_;
};

}  // namespace thresher
