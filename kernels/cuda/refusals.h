// Parts of a backend that have no CUDA twin: they refuse, by name, before any work is done.
#pragma once

#include "kernels/ops/block_selector.h"
#include "kernels/ops/score_observer.h"

namespace thresher {

class RefusingScoreObserver final : public ScoreObserver {
 public:
  absl::Status Observe(const AttentionPlan&, const AttentionLayer&, const ScoreObservation&,
                       Stream&) const override {
    return Refusal();
  }
  absl::Status ObserveValues(const AttentionPlan&, const AttentionLayer&, std::span<const float>,
                             std::span<ValueSums>, std::span<double>, Stream&) const override {
    return Refusal();
  }

 private:
  static absl::Status Refusal() {
    return absl::UnimplementedError(
        "the CUDA device has no score observer; calibrate on the CPU device");
  }
};

class RefusingBlockSelector final : public BlockSelector {
 public:
  std::size_t WorkspaceBytes(const AttentionBatch&, const BlockSelectionRules&,
                             int) const override {
    return 0;
  }
  absl::Status Run(const AttentionPlan&, const AttentionLayer&, int, const BlockSelectionRules&,
                   const BlockBudgets&, const ValueStatistics&, DeviceBuffer&, Stream&,
                   BlockSelection&) const override {
    return absl::UnimplementedError(
        "the CUDA device has no block selector; run block-sparse policies on the CPU device");
  }
};

}  // namespace thresher
