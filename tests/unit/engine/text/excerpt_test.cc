#include "engine/text/excerpt.h"

#include <gtest/gtest.h>

#include "engine/text/utf8.h"

namespace thresher {
namespace {

TEST(ExcerptTest, ShortTextsStayWhole) {
  EXPECT_EQ(Excerpt(""), "");
  EXPECT_EQ(Excerpt(std::string(64, 'x')), std::string(64, 'x'));
  EXPECT_EQ(Excerpt("abc", 3), "abc");
}

TEST(ExcerptTest, LongTextsAreCutBetweenCodePoints) {
  EXPECT_EQ(Excerpt(std::string(65, 'x')), std::string(64, 'x') + "…");
  // A code point of four bytes at every place around the limit.
  for (std::size_t before = 58; before <= 66; ++before) {
    const std::string text = std::string(before, 'x') + "\xF0\x9F\x98\x80" + std::string(99, 'y');
    const std::string cut = Excerpt(text);
    EXPECT_TRUE(IsUtf8(cut)) << before;
    EXPECT_LE(cut.size(), 64 + std::string("…").size());
    EXPECT_GE(cut.size(), 61 + std::string("…").size());
  }
}

TEST(ExcerptTest, BytesThatAreNoTextAreCutToo) {
  EXPECT_LE(Excerpt(std::string(1000, '\x80')).size(), 64 + std::string("…").size());
}

}  // namespace
}  // namespace thresher
