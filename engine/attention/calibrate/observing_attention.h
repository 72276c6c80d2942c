// StepAttention for one sequence at a time that runs dense and observes sampled rows on the way.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/attention/calibrate/score_statistics.h"
#include "engine/attention/step_attention.h"
#include "engine/model/causal_lm.h"
#include "engine/runner/kv_cache_pool.h"
#include "kernels/backend.h"

namespace thresher {

// One thread at a time. The backend outlives it.
class ObservingAttention final : public StepAttention {
 public:
  // Room for one sequence of `max_length` tokens. Unimplemented if the device has no dense prefill
  // kernel for the cache; ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<ObservingAttention>> Create(const CausalLm& model,
                                                                    Backend& backend,
                                                                    DType kv_dtype, int max_length);

  // Plans the next step: positions [context_length, context_length + query_length), of which the
  // rows of `sample` in that range are observed into `statistics`; both outlive the step.
  absl::Status Plan(int context_length, int query_length, std::span<const std::int32_t> rows,
                    std::span<const std::int32_t> buckets, ScoreStatistics& statistics,
                    Stream& stream);
  // Where the step's rows go in the cache; good until the next Plan.
  std::span<const std::int64_t> slot_mapping() const { return slots_; }

  KvCacheLayer CacheOf(int layer_index) override { return pool_->Layer(layer_index); }
  absl::Status Run(int layer_index, TensorView q, TensorView out, Stream& stream) override;

  // Adds the values of positions [0, length) of the cached sequence to totals, and, if
  // `mean_values` [num_layers, num_kv_heads, head_dim] is not empty, its norms to the moments.
  absl::Status ObserveValues(int length, std::span<const float> mean_values,
                             std::span<ValueSums> moments, std::span<double> totals,
                             Stream& stream);

 private:
  explicit ObservingAttention(const ScoreObserver& observer) : observer_(observer) {}
  absl::Status PlanKernel(int context_length, int query_length, Stream& stream);

  const ScoreObserver& observer_;
  std::unique_ptr<KvCachePool> pool_;
  const AttentionKernel* kernel_ = nullptr;
  AttentionBatch shape_;
  float scale_ = 0;
  DeviceBuffer workspace_;
  std::vector<std::int32_t> query_start_, context_length_, block_table_, block_table_start_;
  AttentionPlan plan_;
  std::vector<std::int64_t> slots_;
  std::vector<std::int32_t> rows_, buckets_;  // of this step
  ScoreStatistics* statistics_ = nullptr;
};

}  // namespace thresher
