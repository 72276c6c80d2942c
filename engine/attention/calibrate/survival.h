// How many keys of a row pass a threshold, on average over a histogram's rows, and the inverse.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/ops/kv_selection.h"
#include "kernels/ops/score_observer.h"

namespace thresher {

// The pooled survival function C(t) = mean over rows of the scores above t, linear inside a bin;
// and the weight exp(s − m) that lies below t, each coarse weight shared out over its bins by
// count · exp(s). Borrows the histogram.
class Survival final {
 public:
  Survival(const ScoreHistogram& histogram, ThresholdPlacement placement, std::int64_t num_rows);

  double mean_length() const { return static_cast<double>(total_) / static_cast<double>(rows_); }
  // θ with C(θ) = k. 0 < k < mean_length().
  double ThresholdFor(double k) const;
  // Mean over rows of Σ exp(s − m) over scores up to `threshold`; not for kPost.
  double WeightBelow(double threshold) const;
  // Mean of exp(s − m) of the scores in the threshold's bin, that is of exp(θ − m); 0 if there are
  // none. Not for kPost.
  double WeightAt(double threshold) const;

 private:
  const std::uint32_t* counts_;
  std::int64_t rows_;
  std::uint64_t total_ = 0;
  std::array<double, ScoreBins::kNumBins> weights_ = {};
};

}  // namespace thresher
