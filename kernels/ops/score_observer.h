// Statistics of attention scores and values, for calibration.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kernels/ops/attention_kernel.h"

namespace thresher {

// Bins of equal width over [kLowest, −kLowest); scores outside are counted in the end bins and in
// `outside`.
struct ScoreBins {
  static constexpr int kNumBins = 2048;
  static constexpr float kLowest = -64;
  static constexpr float kWidth = 2 * 64.0f / kNumBins;
};

// Of one (bucket of row lengths, head): how many scores fell into each bin, by placement, and what
// exp(s − m) they carried, m the row's maximum.
struct ScoreHistogram {
  std::uint64_t count[3][ScoreBins::kNumBins];  // by ThresholdPlacement
  double weight[3][ScoreBins::kNumBins];
};

struct ScoreObservation {
  // Rows of the batch's queries to observe, ascending, and each one's bucket.
  std::span<const std::int32_t> rows;
  std::span<const std::int32_t> buckets;
  // [num_buckets, num_heads], added to.
  std::span<ScoreHistogram> histograms;
  std::uint64_t* outside = nullptr;
};

// Sums over the values of a stretch of tokens, for one KV head.
struct ValueSums {
  std::int64_t num_tokens = 0;
  double log_norm = 0, log_norm_squared = 0;  // of ln(|v| + 1e-6), over maxima of 16-token groups
  std::int64_t num_groups = 0;
  double centred_log_norm = 0, centred_log_norm_squared = 0;  // of v − mean_value, likewise
};

// For calibration and evaluation: may allocate, is not on any hot path. Host memory; uses all
// threads of the device.
class ScoreObserver {
 public:
  virtual ~ScoreObserver() = default;
  // After the step's keys are in the cache. InvalidArgument if a row or bucket is out of range.
  virtual absl::Status Observe(const AttentionPlan& plan, const AttentionLayer& layer,
                               const ScoreObservation& observation, Stream& stream) const = 0;
  // Adds the batch's new tokens (its queries' own positions) to sums [num_kv_heads] and their
  // values to value_sums [num_kv_heads, head_dim]. Whole groups of 16 tokens, by absolute position,
  // count for the norms. mean_value [num_kv_heads, head_dim], empty: the centred sums stay.
  virtual absl::Status ObserveValues(const AttentionPlan& plan, const AttentionLayer& layer,
                                     std::span<const float> mean_value, std::span<ValueSums> sums,
                                     std::span<double> value_sums, Stream& stream) const = 0;
};

}  // namespace thresher
