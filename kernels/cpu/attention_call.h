// What the CPU's attention kernels share at a call: checks, the workspace, units for the inner
// loops, and the choice of those loops.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cpu/attention_unit.h"
#include "kernels/device/cpu_isa.h"
#include "kernels/device/device.h"
#include "kernels/ops/attention_kernel.h"

namespace thresher {

// InvalidArgument naming the tensor of `layer` that does not fit the plan; CheckAttentionCache
// looks at the cache alone. `activation` is what q may be beside f32.
absl::Status CheckAttentionCache(const AttentionPlan& plan, const KvCacheLayer& cache,
                                 DType kv_dtype);
absl::Status CheckAttentionLayer(const AttentionPlan& plan, const AttentionLayer& layer,
                                 DType kv_dtype, DType activation = DType::kF32);

// plan.workspace := the first whole cache line of the workspace, for which `bytes` holds a line to
// spare. InvalidArgument if it is smaller.
absl::Status TakeAttentionWorkspace(const DeviceBuffer& workspace, std::size_t bytes,
                                    AttentionPlan& plan);

// The item's rows and keys, with no place for partial results.
AttentionUnit AttentionUnitOf(const AttentionPlan& plan, const AttentionLayer& layer,
                              const AttentionWorkItem& item);

// full_precision forbids products in bf16.
const AttentionAllLoops& AttentionLoopsFor(CpuIsa isa, bool full_precision);

// Whether all units together take less than a fork. A key costs a row about head_dim / 4 of the
// elements that ThreadTeam counts in (two FMAs each, sixteen at a time).
bool IsSmall(const AttentionPlan& plan);

// Counts a unit of `item`'s merge as finished. Whether it was the last; the counter is then zero
// again for the next layer. `counters` [num_merges], at the start of the workspace.
bool FinishesMerge(const AttentionPlan& plan, const AttentionWorkItem& item,
                   std::int32_t* counters);

// Dense decode of an item that has no merge: all keys of a row, cut and merged as they are in
// several units, to the same bits. Scratch: DecodeScratchFloats and a partial result for each
// split.
void DecodeAllSplits(const AttentionAllLoops& loops, AttentionUnit unit, float* scratch);

}  // namespace thresher
