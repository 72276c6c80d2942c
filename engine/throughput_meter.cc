#include "engine/throughput_meter.h"

namespace thresher {

void ThroughputMeter::Add(std::int64_t tokens, absl::Time now) {
  const std::int64_t second = absl::ToUnixSeconds(now);
  Bucket& bucket = buckets_[static_cast<std::size_t>(second) % buckets_.size()];
  if (bucket.second != second) bucket = {second, 0};
  bucket.tokens += tokens;
}

double ThroughputMeter::TokensPerSecond(absl::Time now) const {
  // Whole seconds only: the present one is not over, and would make the rate saw-toothed.
  const std::int64_t second = absl::ToUnixSeconds(now);
  std::int64_t tokens = 0;
  for (const Bucket& bucket : buckets_) {
    if (bucket.second >= second - kSeconds && bucket.second < second) tokens += bucket.tokens;
  }
  return static_cast<double>(tokens) / kSeconds;
}

}  // namespace thresher
