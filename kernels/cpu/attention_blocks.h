// The CPU twins of attention mechanism `blocks`: prefill over lists of blocks of keys.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cpu/parallel.h"
#include "kernels/device/cpu_isa.h"
#include "kernels/ops/attention_kernel.h"

namespace thresher {

// One prefill kernel for each cache dtype (bf16, f16, f32), shapes and `team` as those of mechanism
// `all`. Takes SelectBlocks, and SelectAll for lists of every block; InvalidArgument for another
// selection or for lists that do not fit the plan.
//
// A row whose list has every block has, bit for bit, the result of `all`. Blocks that are not
// listed are not read. Each head of a KV head's group runs alone, as its lists are its own.
std::vector<std::unique_ptr<AttentionKernel>> MakeAttentionBlocksKernels(CpuIsa isa,
                                                                         bool full_precision,
                                                                         ThreadTeam& team);

}  // namespace thresher
