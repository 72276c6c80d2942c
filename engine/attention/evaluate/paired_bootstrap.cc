#include "engine/attention/evaluate/paired_bootstrap.h"

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

namespace thresher {

Interval BootstrapMean(std::span<const StretchSum> stretches, int num_resamples,
                       std::uint64_t seed) {
  double sum = 0;
  std::int64_t count = 0;
  for (const StretchSum& stretch : stretches) {
    sum += stretch.sum;
    count += stretch.count;
  }
  if (count == 0) return {};
  Interval interval;
  interval.mean = sum / static_cast<double>(count);
  std::mt19937_64 random(seed);
  std::vector<double> means;
  means.reserve(static_cast<std::size_t>(num_resamples));
  for (int i = 0; i < num_resamples; ++i) {
    double resampled = 0;
    std::int64_t tokens = 0;
    for (std::size_t j = 0; j < stretches.size(); ++j) {
      // The high bits scaled, not a distribution of the library, whose results may differ by
      // release.
      const auto pick = static_cast<std::size_t>((random() >> 32) * stretches.size() >> 32);
      resampled += stretches[pick].sum;
      tokens += stretches[pick].count;
    }
    if (tokens > 0) means.push_back(resampled / static_cast<double>(tokens));
  }
  std::sort(means.begin(), means.end());
  const auto at = [&](double share) {
    return means[static_cast<std::size_t>(share * static_cast<double>(means.size() - 1) + 0.5)];
  };
  interval.lower = at(0.025);
  interval.upper = at(0.975);
  return interval;
}

}  // namespace thresher
