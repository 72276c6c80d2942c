// Calibrated thresholds of a model, ready for the attention kernels of every rank.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/attention/model_fingerprint.h"
#include "engine/attention/threshold_contents.h"
#include "kernels/ops/block_selector.h"
#include "kernels/ops/kv_selection.h"

namespace thresher {

// Immutable; any thread. Outlives the grids and statistics taken from it.
class ThresholdTable final {
 public:
  // Reads a file for a model that runs on `num_ranks` ranks. As ReadThresholdFile;
  // FailedPrecondition saying both values and what to do if the table was calibrated for another
  // model.
  static absl::StatusOr<std::unique_ptr<ThresholdTable>> Load(const std::string& path,
                                                              const ModelFingerprint& model,
                                                              int num_ranks = 1);
  // InvalidArgument as ThresholdContents::Validate, or if the heads do not divide by the ranks.
  static absl::StatusOr<std::unique_ptr<ThresholdTable>> Create(ThresholdContents contents,
                                                                int num_ranks = 1);

  // The layer's grid for a rank's heads [first_head, first_head + num_heads). InvalidArgument if
  // there is no such layer or the heads are not one rank's; FailedPrecondition if the table lacks
  // the placement. Cheap, but for start-up: a step asks nothing.
  absl::StatusOr<ThresholdGrid> GridOf(int layer, ThresholdPlacement placement, int first_head,
                                       int num_heads) const;
  // The layer's value statistics of a rank's KV heads. InvalidArgument as above, or if the heads'
  // size is another; FailedPrecondition if the table has none.
  absl::StatusOr<ValueStatistics> ValuesOf(int layer, int first_kv_head, int num_kv_heads,
                                           int head_dim) const;

  bool has_placement(ThresholdPlacement placement) const;
  bool has_values() const { return !contents_.values.mean.empty(); }
  // Targets and row lengths that were calibrated; k outside is clamped by the lookup.
  int min_k() const { return contents_.k.front(); }
  int max_k() const { return contents_.k.back(); }
  int min_length() const { return contents_.n.front(); }
  int max_length() const { return contents_.n.back(); }
  ThresholdLookup lookup() const { return contents_.lookup; }
  // Without thetas: those live rank by rank. The rest is as in the file.
  const ThresholdContents& contents() const { return contents_; }

 private:
  // One rank's heads, contiguous, as [num_layers, …, heads of a rank].
  struct RankThresholds {
    std::array<PlacementThresholds, kNumPlacements> placements;
  };

  ThresholdTable(ThresholdContents contents, int num_ranks);

  ThresholdContents contents_;
  std::vector<float> log_k_, log_n_;
  std::vector<RankThresholds> ranks_;
};

}  // namespace thresher
