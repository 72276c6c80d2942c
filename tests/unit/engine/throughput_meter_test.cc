#include "engine/throughput_meter.h"

#include <gtest/gtest.h>

namespace thresher {
namespace {

TEST(ThroughputMeter, CountsTheLastTenWholeSeconds) {
  ThroughputMeter meter;
  const absl::Time start = absl::FromUnixSeconds(1'700'000'000);
  for (int second = 0; second < 25; ++second) {
    meter.Add(40, start + absl::Seconds(second));
    meter.Add(60, start + absl::Seconds(second) + absl::Milliseconds(900));
  }
  EXPECT_DOUBLE_EQ(meter.TokensPerSecond(start + absl::Seconds(25)), 100);
  EXPECT_DOUBLE_EQ(meter.TokensPerSecond(start + absl::Seconds(30)), 50);
  EXPECT_DOUBLE_EQ(meter.TokensPerSecond(start + absl::Seconds(36)), 0);
  EXPECT_DOUBLE_EQ(ThroughputMeter().TokensPerSecond(start), 0);
}

}  // namespace
}  // namespace thresher
