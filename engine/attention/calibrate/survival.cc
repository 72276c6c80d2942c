#include "engine/attention/calibrate/survival.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace thresher {
namespace {

double LowerEdge(int bin) { return ScoreBins::kLowest + double{ScoreBins::kWidth} * bin; }

// The bin of a threshold, and how much of it lies below.
struct BinPlace {
  int bin = 0;
  double below = 0;
};

BinPlace PlaceOf(double threshold) {
  const double at = (threshold - ScoreBins::kLowest) / ScoreBins::kWidth;
  const int bin = std::clamp(static_cast<int>(std::floor(at)), 0, ScoreBins::kNumBins - 1);
  return {bin, std::clamp(at - bin, 0.0, 1.0)};
}

}  // namespace

Survival::Survival(const ScoreHistogram& histogram, ThresholdPlacement placement,
                   std::int64_t num_rows)
    : counts_(histogram.count[static_cast<int>(placement)]), rows_(num_rows) {
  total_ = std::accumulate(counts_, counts_ + ScoreBins::kNumBins, std::uint64_t{0});
  if (placement == ThresholdPlacement::kPost) return;
  constexpr int kShare = ScoreBins::kBinsPerWeight;
  std::array<double, kShare> growth = {};  // of exp(s) inside a coarse bin
  for (int i = 0; i < kShare; ++i) {
    growth[static_cast<std::size_t>(i)] = std::exp(double{ScoreBins::kWidth} * i);
  }
  for (int coarse = 0; coarse < ScoreBins::kNumWeights; ++coarse) {
    const std::uint32_t* counts = counts_ + coarse * kShare;
    const double sum = std::inner_product(counts, counts + kShare, growth.begin(), 0.0);
    if (sum == 0) continue;
    const double weight = histogram.weight[static_cast<int>(placement)][coarse] / sum;
    for (int i = 0; i < kShare; ++i) {
      weights_[static_cast<std::size_t>(coarse * kShare + i)] =
          weight * counts[i] * growth[static_cast<std::size_t>(i)];
    }
  }
}

double Survival::ThresholdFor(double k) const {
  const double wanted = k * static_cast<double>(rows_);
  double above = 0;
  for (int bin = ScoreBins::kNumBins - 1; bin > 0; --bin) {
    const double count = counts_[bin];
    if (above + count >= wanted && count > 0) {
      return LowerEdge(bin) + ScoreBins::kWidth * (1 - (wanted - above) / count);
    }
    above += count;
  }
  return ScoreBins::kLowest;
}

double Survival::WeightBelow(double threshold) const {
  const BinPlace place = PlaceOf(threshold);
  const auto end = weights_.begin() + place.bin;
  return (std::accumulate(weights_.begin(), end, 0.0) + place.below * *end) /
         static_cast<double>(rows_);
}

double Survival::WeightAt(double threshold) const {
  const int bin = PlaceOf(threshold).bin;
  return counts_[bin] == 0 ? 0 : weights_[static_cast<std::size_t>(bin)] / counts_[bin];
}

}  // namespace thresher
