#include "kernels/cpu/block_choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/support/reference/block_selection_reference.h"

namespace thresher {
namespace {

using Blocks = std::vector<std::uint16_t>;

Blocks Choose(const std::vector<float>& scores, int budget, const BlockSelectionRules& rules) {
  const int n = static_cast<int>(scores.size());
  std::vector<std::uint64_t> order(n);
  std::vector<std::uint8_t> is_chosen(n, 7);  // what an earlier row left
  Blocks list(n);
  list.resize(
      ChooseBlocks(scores.data(), n, budget, rules, order.data(), is_chosen.data(), list.data()));
  return list;
}

BlockSelectionRules Rules(int sinks, int locals) {
  return {.sink_blocks = sinks, .local_blocks = locals};
}

TEST(BlockChoiceTest, TiesGoToTheLaterBlock) {
  EXPECT_EQ(Choose({1, 1, 1, 1, 1, 1}, 3, Rules(0, 1)), (Blocks{3, 4, 5}));
  EXPECT_EQ(Choose({1, 2, 2, 1, 2, 0}, 2, Rules(0, 1)), (Blocks{2, 4, 5}));
  EXPECT_EQ(Choose({0.0f, -0.0f, -1, -2}, 1, Rules(0, 1)), (Blocks{1, 3}));
}

TEST(BlockChoiceTest, NegativeScoresAreInOrder) {
  EXPECT_EQ(Choose({-3, -1, -2, -5, -4}, 2, Rules(0, 1)), (Blocks{1, 2, 4}));
  EXPECT_EQ(Choose({-1e-30f, -1e30f, 1e-38f, 0, -4}, 2, Rules(0, 1)), (Blocks{2, 3, 4}));
}

TEST(BlockChoiceTest, NotFiniteScoresAreLast) {
  const float nan = std::nanf(""), infinity = INFINITY;
  EXPECT_EQ(Choose({nan, 1, infinity, -9, -infinity, -nan}, 2, Rules(0, 1)), (Blocks{1, 3, 5}));
  EXPECT_EQ(Choose({nan, 1, infinity, -9, -infinity, 0}, 4, Rules(0, 1)), (Blocks{1, 3, 4, 5}));
}

TEST(BlockChoiceTest, ForcedBlocksRankAndAreAddedOrAreCountedFirst) {
  const std::vector<float> scores = {9, 0, 5, 4, 3, 0, 8};
  BlockSelectionRules rules = Rules(2, 2);
  EXPECT_EQ(Choose(scores, 3, rules), (Blocks{0, 1, 2, 5, 6}));
  rules.forced_in_budget = true;
  EXPECT_EQ(Choose(scores, 5, rules), (Blocks{0, 1, 2, 5, 6}));
  EXPECT_EQ(Choose(scores, 3, rules), (Blocks{0, 1, 5, 6}));
  EXPECT_EQ(Choose(scores, 6, rules), (Blocks{0, 1, 2, 3, 5, 6}));
}

TEST(BlockChoiceTest, CoveredMassTakesTheFewestBlocks) {
  BlockSelectionRules rules = Rules(1, 1);
  rules.covered_mass = 0.75f;
  EXPECT_EQ(Choose({1, 4, 0, 2, 1}, 0, rules), (Blocks{0, 1, 4}));  // 6 of 8
  rules.covered_mass = 0.76f;
  EXPECT_EQ(Choose({1, 4, 0, 2, 1}, 0, rules), (Blocks{0, 1, 3, 4}));
  rules.covered_mass = 0.1f;
  EXPECT_EQ(Choose({1, 4, 0, 2, 1}, 0, rules), (Blocks{0, 4}));
  rules.covered_mass = 1;
  EXPECT_EQ(Choose({1, 4, NAN, 2, 1}, 0, rules), (Blocks{0, 1, 3, 4}));
}

TEST(BlockChoiceTest, RandomRowsAgreeWithWholeSorts) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 2000; ++round) {
    const int n = 1 + static_cast<int>(random() % 70);
    std::vector<float> scores(n);
    for (float& x : scores) x = static_cast<float>(static_cast<int>(random() % 41) - 10);
    BlockSelectionRules rules =
        Rules(static_cast<int>(random() % 6), 1 + static_cast<int>(random() % 5));
    rules.forced_in_budget = random() % 2 == 0;
    if (random() % 3 == 0) {
      rules.covered_mass = static_cast<float>(random() % 101) / 100;
      for (float& x : scores) x = std::fabs(x);
    }
    const int budget = static_cast<int>(random() % 80);
    const std::set<int> expected = ReferenceChoice(scores, budget, rules);
    EXPECT_EQ(Choose(scores, budget, rules), Blocks(expected.begin(), expected.end()));
  }
}

}  // namespace
}  // namespace thresher
