// The CPU twin of BlockSelector: scores from the cache and this step's queries, lists from scores.
#pragma once

#include <memory>

#include "kernels/cpu/parallel.h"
#include "kernels/device/cpu_isa.h"
#include "kernels/ops/block_selector.h"

namespace thresher {

// `team` outlives the selector. The sums of keys are made anew in every call, from one sequence's
// whole cache at a time. A block of keys that the sequence has not filled is never scored, except
// by kExactMass; it is the last one, so it is always read.
std::unique_ptr<BlockSelector> MakeCpuBlockSelector(CpuIsa isa, ThreadTeam& team);

}  // namespace thresher
