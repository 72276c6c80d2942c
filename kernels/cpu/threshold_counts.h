// Adds what one head of a sparse row kept to the counts of its query and KV head.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/ops/kv_selection.h"

namespace thresher {

template <std::size_t kBounds>
std::size_t CountBucketOf(const std::array<float, kBounds>& bounds, float value) {
  return static_cast<std::size_t>(std::lower_bound(bounds.begin(), bounds.end(), value) -
                                  bounds.begin());
}

inline void CountHead(std::int64_t survivors, int target, float dropped_mass,
                      ThresholdCounts& counts) {
  const float ratio = static_cast<float>(survivors) / static_cast<float>(target);
  ++counts.num_heads;
  counts.ratio_sum += ratio;
  ++counts.ratio_buckets[CountBucketOf(kTargetRatioBounds, ratio)];
  // A row whose scores are NaN has no mass to speak of; its request fails.
  if (!std::isfinite(dropped_mass)) return;
  counts.dropped_mass_sum += dropped_mass;
  ++counts.dropped_mass_buckets[CountBucketOf(kDroppedMassBounds, dropped_mass)];
}

}  // namespace thresher
