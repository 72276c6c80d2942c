// The forms of one weight, and which of them the options ask for. See gemm.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/onednn_matmul.h"
#include "kernels/cpu/panel.h"
#include "kernels/cpu/panel_view.h"
#include "kernels/cpu/weight_rows.h"

namespace thresher {

// Parts of one weight may come in different formats, so it is a stack of panels.
struct PanelSegment {
  std::int64_t first_row = 0;
  Panel panel;
};

struct CpuWeight::Forms {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  bool bf16_input = false;
  std::vector<PanelSegment> panels;       // all rows or none
  std::unique_ptr<OneDnnWeight> onednn;   // null if the options do not use it
  std::optional<WeightRows> table;        // a table of rows has nothing else
  std::vector<std::int32_t> table_order;  // row_order of the table

  // Whether a product with this many rows of input runs on the panels.
  bool UsesPanels(std::int64_t num_rows) const {
    return onednn == nullptr || (!panels.empty() && num_rows <= kMaxPanelRows);
  }
};

// The kernels that multiply with these options.
PanelKernels KernelsFor(const CpuGemmOptions& options);

}  // namespace thresher
