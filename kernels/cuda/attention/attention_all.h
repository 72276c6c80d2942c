// The CUDA twins of attention mechanism `all`.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/attention/cuda_attention_plan.h"
#include "kernels/ops/attention_kernel.h"

namespace thresher {

// For head sizes 64 and 128 and caches of bf16 and f16, kernels on the matrix units, which round
// queries and weights to the cache's type; behind them, for every head size and cache, and alone
// with `full_precision`, one that sums in f32. `uploader` outlives the kernels. FailedPrecondition
// if the driver is too old.
absl::StatusOr<std::vector<std::unique_ptr<AttentionKernel>>> MakeCudaAttentionAllKernels(
    bool full_precision, int num_multiprocessors, PlanUploader& uploader);

}  // namespace thresher
