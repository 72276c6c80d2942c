// What a product writes on the way. See gemm.h.
#pragma once

#include <cstdint>

#include "kernels/cpu/aligned_buffer.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/onednn_matmul.h"
#include "kernels/cpu/panel_view.h"

namespace thresher {

struct GemmScratch::Parts {
  PanelKernels kernels;
  int num_threads = 1;
  std::int64_t max_few_rows = kMaxPanelRows;  // rows of input for which weights stay integers
  std::int64_t max_rows = 0;
  std::int64_t max_cols = 0;
  AlignedBuffer group_sums;  // f32 [min(max_rows, max_few_rows), max_cols / 16]
  AlignedBuffer strips;      // [num_threads, strip_bytes]
  std::int64_t strip_bytes = 0;
  OneDnnProducts onednn;
};

}  // namespace thresher
