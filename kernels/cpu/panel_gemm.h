// Products on panels with all threads: each takes a contiguous run of tiles.
#pragma once

#include <cstdint>

#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/gemm_scratch.h"
#include "kernels/cpu/panel_view.h"
#include "kernels/cpu/parallel.h"

namespace thresher {

// Bytes that one thread needs to unpack a strip.
std::int64_t StripBytes(const PanelKernels& kernels);

// out [num_rows, rows] = x [num_rows, cols] · weightᵀ + bias, for any number of rows. The scratch
// must have been reserved for it.
void MultiplyPanels(const CpuWeight::Forms& forms, const void* x, std::int64_t num_rows,
                    const float* bias, float* out, GemmScratch::Parts& scratch, ThreadTeam& team);

}  // namespace thresher
