// StepAttention for one sequence at a time that runs dense and observes sampled rows on the way.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/attention/calibrate/score_statistics.h"
#include "engine/attention/solo_attention.h"
#include "engine/model/causal_lm.h"
#include "kernels/backend.h"

namespace thresher {

// One thread at a time. The backend outlives it.
class ObservingAttention final : public StepAttention {
 public:
  // As SoloAttention::Create.
  static absl::StatusOr<std::unique_ptr<ObservingAttention>> Create(const CausalLm& model,
                                                                    Backend& backend,
                                                                    DType kv_dtype, int max_length);

  // Plans the next step: positions [context_length, context_length + query_length), of which the
  // rows of `sample` in that range are observed into `statistics`; both outlive the step.
  absl::Status Plan(int context_length, int query_length, std::span<const std::int32_t> rows,
                    std::span<const std::int32_t> buckets, ScoreStatistics& statistics,
                    Stream& stream);
  // Where the step's rows go in the cache; good until the next Plan.
  std::span<const std::int64_t> slot_mapping() const { return dense_->slot_mapping(); }

  KvCacheLayer CacheOf(int layer_index) override { return dense_->CacheOf(layer_index); }
  absl::Status Run(int layer_index, TensorView q, TensorView out, Stream& stream) override;

  // Adds the values of positions [0, length) of the cached sequence to totals, and, if
  // `mean_values` [num_layers, num_kv_heads, head_dim] is not empty, its norms to the moments.
  absl::Status ObserveValues(int length, std::span<const float> mean_values,
                             std::span<ValueSums> moments, std::span<double> totals,
                             Stream& stream);

 private:
  ObservingAttention(const ScoreObserver& observer, std::unique_ptr<SoloAttention> dense)
      : observer_(observer), dense_(std::move(dense)) {}

  const ScoreObserver& observer_;
  const std::unique_ptr<SoloAttention> dense_;
  std::vector<std::int32_t> rows_, buckets_;  // of this step
  ScoreStatistics* statistics_ = nullptr;
};

}  // namespace thresher
