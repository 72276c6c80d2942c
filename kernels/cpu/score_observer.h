// Statistics of scores and values on the CPU.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/cpu/score_rows.h"
#include "kernels/ops/score_observer.h"

namespace thresher {

// Scores are f32 products of f32 queries with the cache's keys, as in decode. One thread adds up a
// (bucket, KV head), so that sums have one order. The team outlives the object.
class CpuScoreObserver final : public ScoreObserver {
 public:
  CpuScoreObserver(CpuIsa isa, ThreadTeam& team)
      : score_rows_(ScoreRowsFor(isa)), row_ops_(RowOpsFor(isa)), team_(team) {}

  absl::Status Observe(const AttentionPlan& plan, const AttentionLayer& layer,
                       const ScoreObservation& observation, Stream& stream) const override;
  absl::Status ObserveValues(const AttentionPlan& plan, const AttentionLayer& layer,
                             std::span<const float> mean_value, std::span<ValueSums> sums,
                             std::span<double> value_sums, Stream& stream) const override;

 private:
  const ScoreRowsLoop score_rows_;
  const RowOps& row_ops_;
  ThreadTeam& team_;
};

}  // namespace thresher
