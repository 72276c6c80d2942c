// StepAttention for one dense sequence with a cache of its own: what it takes to run a model
// without the engine's grouping.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/attention/step_attention.h"
#include "engine/model/causal_lm.h"
#include "engine/runner/kv_cache_pool.h"
#include "kernels/backend.h"

namespace thresher {

// The sequence's blocks lie in the cache in falling order, so that code which takes slots for
// positions shows. One thread at a time; the backend outlives it.
class SoloAttention final : public StepAttention {
 public:
  // Room for one sequence of `max_length` tokens. Unimplemented if the device has no dense prefill
  // kernel for the cache; ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<SoloAttention>> Create(const CausalLm& model,
                                                               Backend& backend, DType kv_dtype,
                                                               int max_length);

  // Plans the next step: rows at positions [context_length, context_length + query_length).
  absl::Status Plan(int context_length, int query_length, Stream& stream);
  // Where the step's rows go in the cache; good until the next Plan, as the plan is.
  std::span<const std::int64_t> slot_mapping() const { return slots_; }
  const AttentionPlan& plan() const { return plan_; }
  const KvCacheShape& cache_shape() const { return pool_->shape(); }

  AttentionLayer Layer(int layer_index, TensorView q, TensorView out);
  KvCacheLayer CacheOf(int layer_index) override { return pool_->Layer(layer_index); }
  absl::Status Run(int layer_index, TensorView q, TensorView out, Stream& stream) override;

 private:
  SoloAttention() = default;

  std::unique_ptr<KvCachePool> pool_;
  const AttentionKernel* kernel_ = nullptr;
  AttentionBatch batch_;  // borrows the arrays below
  float scale_ = 0;
  DeviceBuffer workspace_;
  std::vector<std::int32_t> query_start_, context_length_, block_table_, block_table_start_;
  AttentionPlan plan_;
  std::vector<std::int64_t> slots_;
};

}  // namespace thresher
