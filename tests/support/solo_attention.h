// StepAttention for one sequence with a cache of its own: what a test of a model needs, without
// the engine's grouping.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/attention/step_attention.h"
#include "engine/model/causal_lm.h"
#include "kernels/backend.h"

namespace thresher::testing {

// The sequence's blocks lie in the cache in falling order, so that a wrong table shows. One thread
// at a time; the backend outlives it.
class SoloAttention final : public StepAttention {
 public:
  // Room for one sequence of `max_length` tokens.
  static absl::StatusOr<std::unique_ptr<SoloAttention>> Create(const CausalLm& model,
                                                               Backend& backend, DType kv_dtype,
                                                               int max_length);

  // Plans the next step: rows at positions [context_length, context_length + query_length).
  absl::Status Plan(int context_length, int query_length, Stream& stream);
  // Where the step's rows go in the cache.
  std::vector<std::int64_t> SlotMapping() const;

  KvCacheLayer CacheOf(int layer_index) override;
  absl::Status Run(int layer_index, TensorView q, TensorView out, Stream& stream) override;

 private:
  static constexpr int kBlockSize = 16;

  AttentionBatch shape_;
  float scale_ = 0;
  DType kv_dtype_{};
  int num_blocks_ = 0;
  std::vector<DeviceBuffer> k_, v_;  // one for each layer
  const AttentionKernel* kernel_ = nullptr;
  DeviceBuffer workspace_;
  std::vector<std::int32_t> query_start_, context_length_, block_table_, block_table_start_;
  AttentionPlan plan_;
};

}  // namespace thresher::testing
