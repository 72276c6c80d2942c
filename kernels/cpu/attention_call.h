// What the CPU's attention kernels share at a call: checks, the workspace, units for the inner
// loops, and the choice of those loops.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "kernels/cpu/attention_unit.h"
#include "kernels/device/cpu_isa.h"
#include "kernels/device/device.h"
#include "kernels/ops/attention_kernel.h"

namespace thresher {

// InvalidArgument naming the tensor of `layer` that does not fit the plan.
absl::Status CheckAttentionLayer(const AttentionPlan& plan, const AttentionLayer& layer,
                                 DType kv_dtype);

// plan.workspace := the first whole cache line of the workspace, for which `bytes` holds a line to
// spare. InvalidArgument if it is smaller.
absl::Status TakeAttentionWorkspace(const DeviceBuffer& workspace, std::size_t bytes,
                                    AttentionPlan& plan);

// The item's rows and keys, with no place for partial results.
AttentionUnit AttentionUnitOf(const AttentionPlan& plan, const AttentionLayer& layer,
                              const AttentionWorkItem& item);

// full_precision forbids products in bf16.
const AttentionAllLoops& AttentionLoopsFor(CpuIsa isa, bool full_precision);

}  // namespace thresher
