// Tokens a second over the last ten seconds.
#pragma once

#include <array>
#include <cstdint>

#include "absl/time/time.h"

namespace thresher {

// Time comes in as an argument and never goes back. One thread at a time.
class ThroughputMeter final {
 public:
  void Add(std::int64_t tokens, absl::Time now);
  double TokensPerSecond(absl::Time now) const;

 private:
  static constexpr int kSeconds = 10;
  struct Bucket {
    std::int64_t second = -1;
    std::int64_t tokens = 0;
  };
  std::array<Bucket, kSeconds + 1> buckets_{};  // by second modulo their number
};

}  // namespace thresher
