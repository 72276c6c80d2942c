// What a threshold table holds, as plain arrays: what calibration makes, and a file keeps.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/attention/model_fingerprint.h"
#include "kernels/ops/kv_selection.h"

namespace thresher {

inline constexpr int kNumPlacements = 3;  // of ThresholdPlacement, its values in order

// The thresholds of one placement, in the units of ThresholdGrid. Heads are all query heads of the
// model.
struct PlacementThresholds {
  std::vector<float> theta;  // [num_layers, num_k, num_n, num_heads]; empty: not in this table
  // dθ / d ln n beyond the last length, [num_layers, num_k, num_heads]; ≥ 0, for kPost ≤ 0.
  std::vector<float> slope;
  // Mean of Σ exp(s − m) over the dropped keys, shaped like theta; empty: not calibrated.
  std::vector<float> dropped;
  // The gamma for which DroppedDenominator::kExponential is right on average over the last three
  // octaves of lengths, [num_layers, num_k, num_heads]; empty: not calibrated.
  std::vector<float> gamma;
};

// As ValueStatistics, for all layers and KV heads. All empty: not calibrated.
struct ValueMoments {
  std::vector<float> mean, std, centred_mean, centred_std;  // [num_layers, num_kv_heads]
  std::vector<float> mean_value;                            // [num_layers, num_kv_heads, head_dim]
};

struct ThresholdContents {
  ModelFingerprint fingerprint;
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  ThresholdLookup lookup = ThresholdLookup::kBilinear;
  std::vector<std::int32_t> k, n;     // the grid, ascending
  std::vector<std::int64_t> samples;  // [num_n], rows observed at each length; 0: extrapolated
  std::array<PlacementThresholds, kNumPlacements> placements;
  ValueMoments values;

  // InvalidArgument naming the field and what is wrong with it: a size over its limit or at odds
  // with the others, an axis that does not ascend, a number that is not finite, a slope of the
  // wrong sign.
  absl::Status Validate() const;
};

// Limits on what a file may ask for, checked before anything is allocated.
struct ThresholdLimits {
  static constexpr int kLayers = 1024, kHeads = 1024, kHeadDim = 1024;
  static constexpr int kTargets = 256, kLengths = 1 << 17, kTokens = 1 << 24;
  static constexpr int kFields = 64, kFieldBytes = 4096;
  static constexpr std::int64_t kThresholds = std::int64_t{1} << 28;  // of one placement
};

}  // namespace thresher
