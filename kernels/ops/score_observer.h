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
  // What the scores carry is kept more coarsely: it is smooth, and counts share it out.
  static constexpr int kBinsPerWeight = 8;
  static constexpr int kNumWeights = kNumBins / kBinsPerWeight;
};

// Of one (bucket of row lengths, head): how many scores fell into each bin, by ThresholdPlacement,
// and what exp(s − m) they carried, m the row's maximum, for kPre and kCentred (kPost needs no
// denominator). The caller sees to it that a bucket gets fewer than 2^32 scores.
struct ScoreHistogram {
  std::uint32_t count[3][ScoreBins::kNumBins];
  double weight[2][ScoreBins::kNumWeights];
};

struct ScoreObservation {
  // Queries of the batch to observe, in the order of query_start, ascending, and each one's bucket.
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
  // After the step's keys are in the cache. Bitwise the same for any number of threads.
  // InvalidArgument if a row, a bucket or a tensor's shape is wrong; FailedPrecondition if a score
  // is not finite.
  virtual absl::Status Observe(const AttentionPlan& plan, const AttentionLayer& layer,
                               const ScoreObservation& observation, Stream& stream) const = 0;
  // Adds the batch's new tokens (its queries' own positions) to sums [num_kv_heads] and their
  // values to value_sums [num_kv_heads, head_dim]. Whole groups of 16 tokens, by absolute position,
  // count for the norms. mean_value [num_kv_heads, head_dim], empty: the centred sums stay. Of the
  // layer only the cache is read.
  virtual absl::Status ObserveValues(const AttentionPlan& plan, const AttentionLayer& layer,
                                     std::span<const float> mean_value, std::span<ValueSums> sums,
                                     std::span<double> value_sums, Stream& stream) const = 0;
};

}  // namespace thresher
