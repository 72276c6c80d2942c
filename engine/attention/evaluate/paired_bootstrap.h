// Confidence intervals of a mean over text, whose neighbouring tokens are not independent.
#pragma once

#include <cstdint>
#include <span>

namespace thresher {

struct Interval {
  double mean = 0, lower = 0, upper = 0;  // 2.5 % and 97.5 % of the resampled means
};

// A stretch of text: a sum over its tokens and their number.
struct StretchSum {
  double sum = 0;
  std::int64_t count = 0;
};

// The mean over all tokens; resamples whole stretches with replacement, so that the interval holds
// for tokens that depend on their neighbours within one. Paired: give differences of two runs over
// the same text. Deterministic in the seed. All zero without tokens.
Interval BootstrapMean(std::span<const StretchSum> stretches, int num_resamples,
                       std::uint64_t seed);

}  // namespace thresher
