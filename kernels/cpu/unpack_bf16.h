// The parts of the bf16 panel kernels that run once for many products. See PanelKernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/panel_view.h"

namespace thresher {

// PanelKernels::unpack and ::sum_groups for bf16. AVX-512 with bf16 instructions.
void UnpackTileBf16(const PanelView& panel, std::int64_t tile, std::int64_t col_begin,
                    std::int64_t col_end, std::byte* strip);
void SumGroupsBf16(const void* x, std::int64_t num_rows, std::int64_t cols, int group, float* sums);

}  // namespace thresher
