// The CPU twins of attention mechanism `above threshold`.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cpu/parallel.h"
#include "kernels/device/cpu_isa.h"
#include "kernels/ops/attention_kernel.h"

namespace thresher {

// Of a thread: some of its second-level cache, and large enough that a wave's two forks cost
// nothing beside it. 8,192 keys of 9 heads are 0.3 MB.
inline constexpr std::int64_t kScoreWaveBytes = std::int64_t{1} << 20;

// One kernel for each phase and cache dtype (bf16, f16, f32), head_dim and block size as
// MakeAttentionAllKernels. `team` outlives the kernels. They carry out SelectAll and
// SelectAboveThreshold.
//
// A row that reads all (SelectAll, k = 0, n ≤ k, n > longest_row) is bitwise what the mechanism
// `all` makes of it in the same phase, whatever the other rows of its chunk. Every other row has
// one order of sums, in both phases: that of decode, split by its number of keys alone.
//
// Run: InvalidArgument if the selection is SelectBlocks, its targets or its grid do not fit the
// batch, the cache lacks the sums that it needs (k_sums for kCentred, v_sums for a value mean), or
// it promotes with an estimate of one head.
//
// wave_bytes: scores of kPost that a thread holds at a time, if one row's fit. No bit depends on
// it.
std::vector<std::unique_ptr<AttentionKernel>> MakeAttentionThresholdKernels(
    CpuIsa isa, bool full_precision, ThreadTeam& team, std::int64_t wave_bytes = kScoreWaveBytes);

}  // namespace thresher
