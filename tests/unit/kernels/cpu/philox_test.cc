#include "kernels/cpu/philox.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace thresher {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers that come with the authors' reference implementation (Random123, kat_vectors).
TEST(PhiloxTest, GivesTheKnownAnswers) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, UniformDrawsLieBelowOneAndDiffer) {
  double sum = 0;
  for (std::uint32_t position = 0; position < 1000; ++position) {
    const double u = UniformDraw(7, 0, position);
    EXPECT_GE(u, 0);
    EXPECT_LT(u, 1);
    sum += u;
  }
  EXPECT_NEAR(sum / 1000, 0.5, 5 * 0.2887 / std::sqrt(1000.0));
}

}  // namespace
}  // namespace thresher
