#include "scheduler/prefix_salt.h"

#include <gtest/gtest.h>

#include <vector>

namespace thresher {
namespace {

TEST(PrefixSalt, ABlockWithAnyRowPastABorderBelongsToTheLaterSpan) {
  const std::vector<SaltSpan> spans = {{0, 1, 1}, {32, 2, 2}, {50, 3, 3}};
  EXPECT_EQ(SpanOfBlock(spans, 0, 16).written, 1u);  // rows 0 to 15
  EXPECT_EQ(SpanOfBlock(spans, 1, 16).written, 1u);  // 16 to 31: the border is not in it
  EXPECT_EQ(SpanOfBlock(spans, 2, 16).written, 2u);  // 32 to 47: starts at the border
  EXPECT_EQ(SpanOfBlock(spans, 3, 16).written, 3u);  // 48 to 63: the border is inside
  EXPECT_EQ(SpanOfBlock(spans, 9, 16).written, 3u);
  EXPECT_EQ(SpanOfBlock(spans, 0, 128).written, 3u);  // all borders inside
}

TEST(PrefixSalt, RefusesSpansThatDoNotCoverOrAscend) {
  EXPECT_TRUE(ValidateSaltSpans(std::vector<SaltSpan>{{0, 0, 0}, {5, 1, 0}}).ok());
  EXPECT_FALSE(ValidateSaltSpans({}).ok());
  EXPECT_FALSE(ValidateSaltSpans(std::vector<SaltSpan>{{1, 0, 0}}).ok());
  EXPECT_FALSE(ValidateSaltSpans(std::vector<SaltSpan>{{0, 0, 0}, {0, 1, 1}}).ok());
}

}  // namespace
}  // namespace thresher
