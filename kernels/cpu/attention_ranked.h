// The CPU twins of attention mechanism `ranked`.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cpu/parallel.h"
#include "kernels/device/cpu_isa.h"
#include "kernels/ops/attention_kernel.h"

namespace thresher {

// One kernel for each phase and cache dtype (bf16, f16, f32), head_dim and block size as
// MakeAttentionAllKernels. `team` outlives the kernels. They carry out SelectAll and SelectRanked;
// both phases have the same bits in sparse rows. Scores are f32 products of f32 queries.
//
// Run: InvalidArgument if the selection is another one or its targets or pages are out of range.
std::vector<std::unique_ptr<AttentionKernel>> MakeAttentionRankedKernels(CpuIsa isa,
                                                                         bool full_precision,
                                                                         ThreadTeam& team);

}  // namespace thresher
