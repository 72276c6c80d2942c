// Attention as a model sees it: all of a step's rows, one call a layer. Groups the rows by
// mechanism and phase, plans each group once a step, and runs the groups. Knows policies only by
// their selectors.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/device/tensor_view.h"

namespace thresher {

class StepAttention {
 public:
  virtual ~StepAttention() = default;
  // The layer's cache, for the append of this step's K and V, which comes before Run.
  virtual KvCacheLayer CacheOf(int layer_index) = 0;
  // q [num_tokens, heads of this rank, head_dim] f32; out the same shape, gemm_input dtype.
  virtual absl::Status Run(int layer_index, TensorView q, TensorView out, Stream& stream) = 0;
};

}  // namespace thresher
