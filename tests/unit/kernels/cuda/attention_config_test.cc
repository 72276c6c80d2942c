#include <gtest/gtest.h>

#include "kernels/cuda/attention/all/config.h"

namespace thresher {
namespace {

TEST(CudaAttentionConfig, CountsAreRoundedUpByAQuarterAtMost) {
  std::int64_t last = 0;
  for (std::int64_t count = 0; count < 100000; ++count) {
    const int step = PlanStep(count);
    const std::int64_t rounded = CountOfStep(step);
    ASSERT_GE(rounded, count);
    ASSERT_LE(rounded, count + count / 4 + 1);
    ASSERT_GE(rounded, last);
    ASSERT_EQ(PlanStep(rounded), step);
    last = rounded;
  }
  // A step is a byte of AttentionPlan::launch_key.
  EXPECT_LT(PlanStep(std::int64_t{1} << 62), 256);
}

TEST(CudaAttentionConfig, RangesOfARowAreWholeTilesAndNotTooMany) {
  for (int keys = 1; keys < 300000; keys += 37) {
    const int size = GpuDecodeSplitSize(keys);
    ASSERT_EQ(size % 64, 0);
    ASSERT_LE(NumGpuDecodeSplits(keys), kMaxDecodeSplits);
    ASSERT_LE((NumGpuDecodeSplits(keys) + kMergeFour - 1) / kMergeFour, kMaxFours);
  }
}

TEST(CudaAttentionConfig, RangesJoinWhereTheWarpsHaveEnough) {
  constexpr int kWarps = 528, kParts = 8;
  const auto joins = [&](std::int64_t rows, int keys) {
    return JoinsFours(GpuDecodeSplitSize(keys), rows * keys * kParts, kWarps);
  };
  EXPECT_FALSE(joins(1, 4096));
  EXPECT_FALSE(joins(1, 131072));
  EXPECT_TRUE(joins(8, 4096));
  EXPECT_TRUE(joins(64, 8192));
}

}  // namespace
}  // namespace thresher
