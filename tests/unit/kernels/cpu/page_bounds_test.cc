// Item 18 of the oracle of specs/top_theta.md: what a page's bound says about its keys.
#include "kernels/cpu/page_bounds.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace thresher {
namespace {

constexpr int kDim = 24, kKeys = 203, kPage = 16;  // the last page holds 11 keys

class PageBoundsTest : public ::testing::Test {
 protected:
  PageBoundsTest() {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (float& x : keys_) x = normal(random);
    for (float& x : q_) x = normal(random);
    for (int key = 0; key < kKeys; ++key) bounds_.Add(&keys_[key * kDim]);
    bound_.resize(bounds_.num_pages());
    bounds_.Bound(q_.data(), bound_.data());
  }

  double Score(int key) const {
    double score = 0;
    for (int d = 0; d < kDim; ++d) score += double{q_[d]} * keys_[key * kDim + d];
    return score;
  }
  // Of a sum of kDim products in f32, with the sizes that the bound adds up.
  double Rounding(int page) const {
    double size = 0;
    for (int d = 0; d < kDim; ++d) {
      double largest = 0;
      for (int key = page * kPage; key < std::min(kKeys, (page + 1) * kPage); ++key) {
        largest = std::max(largest, std::fabs(double{keys_[key * kDim + d]}));
      }
      size += std::fabs(q_[d]) * largest;
    }
    return (kDim + 2) * 0x1p-24 * size;
  }

  std::vector<float> keys_ = std::vector<float>(kKeys * kDim);
  std::vector<float> q_ = std::vector<float>(kDim);
  std::vector<float> memory_ = std::vector<float>(PageBounds::Floats(kKeys, kPage, kDim));
  PageBounds bounds_{memory_.data(), kKeys, kPage, kDim};
  std::vector<float> bound_;
};

TEST_F(PageBoundsTest, Item18IsTheSumOfTheLargestProducts) {
  ASSERT_EQ(bounds_.num_pages(), 13);
  for (int page = 0; page < bounds_.num_pages(); ++page) {
    double expected = 0;
    for (int d = 0; d < kDim; ++d) {
      double low = INFINITY, high = -INFINITY;
      for (int key = page * kPage; key < std::min(kKeys, (page + 1) * kPage); ++key) {
        low = std::min(low, double{keys_[key * kDim + d]});
        high = std::max(high, double{keys_[key * kDim + d]});
      }
      expected += std::max(q_[d] * low, q_[d] * high);
    }
    EXPECT_NEAR(bound_[page], expected, Rounding(page)) << page;
  }
}

TEST_F(PageBoundsTest, Item18NoKeyOfAPageIsAboveItsBound) {
  for (int key = 0; key < kKeys; ++key) {
    EXPECT_LE(Score(key), bound_[key / kPage] + Rounding(key / kPage)) << key;
  }
}

TEST_F(PageBoundsTest, Item18PruningByTheBoundChangesNoSelection) {
  // A threshold just above a page's bound lets the page be skipped: the survivors are the same.
  for (int pruned = 0; pruned < bounds_.num_pages(); ++pruned) {
    const double theta = bound_[pruned] + Rounding(pruned);
    for (int key = pruned * kPage; key < std::min(kKeys, (pruned + 1) * kPage); ++key) {
      EXPECT_LE(Score(key), theta) << key;
    }
  }
}

TEST_F(PageBoundsTest, Item18TheDroppedMassOfAPageIsWithinItsBracket) {
  const double scale = 1 / std::sqrt(kDim);
  for (int page = 0; page < bounds_.num_pages(); ++page) {
    const int first = page * kPage, end = std::min(kKeys, first + kPage);
    double mass = 0, mean = 0;
    for (int key = first; key < end; ++key) {
      mass += std::exp(scale * Score(key));
      mean += scale * Score(key) / (end - first);
    }
    EXPECT_GE(mass, (end - first) * std::exp(mean) * (1 - 1e-12)) << page;
    EXPECT_LE(mass, (end - first) * std::exp(scale * (bound_[page] + Rounding(page)))) << page;
  }
}

TEST_F(PageBoundsTest, AnIncompletePageGrowsWithItsKeys) {
  std::vector<float> memory(memory_.size());
  PageBounds growing(memory.data(), kKeys, kPage, kDim);
  std::vector<float> bound(13);
  for (int key = 0; key < kKeys; ++key) {
    growing.Add(&keys_[key * kDim]);
    growing.Bound(q_.data(), bound.data());
    ASSERT_EQ(growing.num_pages(), key / kPage + 1);
    // Pages that are complete have the bounds that they keep.
    for (int page = 0; page < (key + 1) / kPage; ++page) EXPECT_EQ(bound[page], bound_[page]);
    EXPECT_LE(bound[key / kPage], bound_[key / kPage]);
  }
}

}  // namespace
}  // namespace thresher
