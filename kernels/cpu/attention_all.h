// The CPU twins of attention mechanism `all`: plans of units, dealt to threads.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cpu/parallel.h"
#include "kernels/device/cpu_isa.h"
#include "kernels/ops/attention_kernel.h"

namespace thresher {

// One kernel for each phase and cache dtype (bf16, f16, f32), any head_dim that is a multiple of 8
// up to 256, any block size that is a multiple of 8. `team` outlives the kernels. full_precision
// forbids products in bf16.
//
// A prefill row's bits do not depend on how the prompt was cut into chunks; decode sums in another
// order, so a row that is run again in the other phase agrees within rounding.
std::vector<std::unique_ptr<AttentionKernel>> MakeAttentionAllKernels(CpuIsa isa,
                                                                      bool full_precision,
                                                                      ThreadTeam& team);

// Keys of one decode unit, for a row that sees num_keys: a function of that number alone.
int DecodeSplitSize(int num_keys);
int NumDecodeSplits(int num_keys);

}  // namespace thresher
