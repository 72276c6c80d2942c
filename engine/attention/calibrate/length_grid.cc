#include "engine/attention/calibrate/length_grid.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace thresher {
namespace {

constexpr int kShortest = 64, kSmallestTarget = 16, kLargestTarget = 4096;

}  // namespace

std::vector<std::int32_t> LengthGrid(int max_length) {
  std::vector<std::int32_t> lengths;
  for (int step = 0;; ++step) {
    const auto length = static_cast<int>(std::lround(kShortest * std::exp2(step / 4.0)));
    // A point closer to the end than half a step gives way to the end itself.
    if (length * std::exp2(0.125) > max_length) break;
    lengths.push_back(length);
  }
  lengths.push_back(max_length);
  return lengths;
}

std::vector<std::int32_t> TargetGrid(int longest) {
  std::vector<std::int32_t> targets;
  for (int step = 0;; ++step) {
    const auto target = static_cast<int>(std::lround(kSmallestTarget * std::exp2(step / 2.0)));
    if (target > kLargestTarget || (step > 0 && target >= longest)) return targets;
    targets.push_back(target);
  }
}

std::vector<LengthBucket> BucketsOf(std::span<const std::int32_t> lengths) {
  std::vector<LengthBucket> buckets;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const bool last = i + 1 == lengths.size();
    LengthBucket bucket;
    bucket.shortest =
        static_cast<std::int32_t>(std::ceil(lengths[i] * std::exp2(last ? -0.0625 : -0.125)));
    bucket.longest =
        last ? lengths[i] : static_cast<std::int32_t>(std::floor(lengths[i] * std::exp2(0.125)));
    if (i > 0) bucket.shortest = std::max(bucket.shortest, buckets.back().longest + 1);
    buckets.push_back(bucket);
  }
  return buckets;
}

RowSample SampleRows(std::span<const LengthBucket> buckets, std::span<const std::int64_t> limits,
                     int window_length, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  RowSample sample;
  std::vector<std::int32_t> candidates;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    candidates.clear();
    for (int n = buckets[b].shortest; n <= std::min(buckets[b].longest, window_length); ++n) {
      candidates.push_back(n - 1);
    }
    const auto count = static_cast<std::size_t>(
        std::clamp<std::int64_t>(limits[b], 0, static_cast<std::int64_t>(candidates.size())));
    for (std::size_t i = 0; i < count; ++i) {
      // The bias of a remainder of 64 bits is below 2^-40 for any window.
      std::swap(candidates[i], candidates[i + random() % (candidates.size() - i)]);
    }
    candidates.resize(count);
    std::sort(candidates.begin(), candidates.end());
    sample.rows.insert(sample.rows.end(), candidates.begin(), candidates.end());
    sample.buckets.insert(sample.buckets.end(), count, static_cast<std::int32_t>(b));
  }
  return sample;
}

}  // namespace thresher
