// The loss of a block of keys against its actual removal, and the order statistics of blocks.
#include "engine/attention/evaluate/block_removal.h"

#include <cmath>
#include <functional>
#include <random>

#include "gtest/gtest.h"

namespace thresher {
namespace {

constexpr int kDim = 6, kBlock = 8;

// The output over the keys for which `reads` is true.
std::vector<double> OutputOf(const std::vector<double>& scores, const std::vector<float>& values,
                             const std::function<bool(int)>& reads) {
  std::vector<double> output(kDim);
  double sum = 0;
  for (int key = 0; key < static_cast<int>(scores.size()); ++key) {
    if (!reads(key)) continue;
    const double weight = std::exp(scores[key]);
    sum += weight;
    for (int d = 0; d < kDim; ++d) output[d] += weight * values[key * kDim + d];
  }
  for (double& element : output) element /= sum;
  return output;
}

// Item 16 of the oracle of specs/stem.md.
TEST(BlockRemoval, Oracle16TheFormulaIsTheActualRemoval) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<double> scores(61);  // the last block holds five keys
  std::vector<float> values(scores.size() * kDim);
  for (double& score : scores) score = 2 * normal(random);
  for (float& value : values) value = normal(random);
  const BlockRemoval removal = RemoveEachBlock(scores, values, kDim, kBlock);
  ASSERT_EQ(removal.error.size(), 8u);
  const std::vector<double> dense = OutputOf(scores, values, [](int) { return true; });
  double mass = 0;
  for (int d = 0; d < kDim; ++d) EXPECT_NEAR(removal.output[d], dense[d], 1e-12);
  for (int block = 0; block < 8; ++block) {
    const std::vector<double> without =
        OutputOf(scores, values, [&](int key) { return key / kBlock != block; });
    double square = 0;
    for (int d = 0; d < kDim; ++d) square += (dense[d] - without[d]) * (dense[d] - without[d]);
    EXPECT_NEAR(removal.error[block], std::sqrt(square), 1e-6 * std::sqrt(square)) << block;
    mass += removal.mass[block];
  }
  EXPECT_NEAR(mass, 1, 1e-12);
}

TEST(BlockRemoval, ABlockWithAllTheMassIsTheWorstToLose) {
  std::vector<double> scores(16, -800);
  scores[3] = 0;
  std::vector<float> values(16 * kDim, 1);
  values[3 * kDim] = 2;
  const BlockRemoval removal = RemoveEachBlock(scores, values, kDim, kBlock);
  EXPECT_EQ(removal.mass[0], 1);
  EXPECT_TRUE(std::isfinite(removal.error[0]));
  EXPECT_EQ(removal.error[1], 0);
}

TEST(KendallTau, CountsPairsThatAgree) {
  const std::vector<double> rising = {1, 2, 3, 4}, falling = {9, 7, 5, 3}, mixed = {1, 3, 2, 4};
  EXPECT_DOUBLE_EQ(KendallTau(rising, rising), 1);
  EXPECT_DOUBLE_EQ(KendallTau(rising, falling), -1);
  EXPECT_DOUBLE_EQ(KendallTau(rising, mixed), 4.0 / 6);
}

// tau-b = (agree − differ) / sqrt((pairs − ties of a)(pairs − ties of b)).
TEST(KendallTau, TiesCountForNeither) {
  const std::vector<double> a = {1, 1, 2, 3}, b = {1, 2, 2, 3}, equal = {5, 5, 5, 5};
  // Four pairs agree, one is tied in a and one in b.
  EXPECT_DOUBLE_EQ(KendallTau(a, b), 4.0 / 5);
  EXPECT_DOUBLE_EQ(KendallTau(a, equal), 0);
}

}  // namespace
}  // namespace thresher
