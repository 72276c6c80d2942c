// Sampling by the rules of ops/sampling.h, for every backend of the binary.
#include "kernels/ops/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "tests/support/reference/numbers.h"
#include "tests/support/sampling_fixture.h"

namespace thresher {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class SamplingTest : public SamplingFixture {
 protected:
  // How often each token is drawn at positions 0 … draws − 1.
  std::map<int, int> CountDraws(const std::vector<float>& logits, SamplingRow row, int draws) {
    std::map<int, int> counts;
    std::vector<SamplingRow> rows;
    for (int i = 0; i < draws; ++i) {
      row.position = static_cast<std::uint32_t>(i);
      rows.push_back(row);
      if (rows.size() == 100) {
        for (const SampledToken& token : SampleAll(logits, rows)) ++counts[token.token];
        rows.clear();
      }
    }
    if (!rows.empty()) {
      for (const SampledToken& token : SampleAll(logits, rows)) ++counts[token.token];
    }
    return counts;
  }

  // Draws fit `expected` (probabilities by token): chi-square below its mean plus five deviations,
  // and nothing outside the support. Seeds are fixed, so this passes always or never.
  void ExpectDrawn(const std::vector<float>& logits, const SamplingRow& row,
                   const std::map<int, double>& expected, int draws = 4000) {
    const std::map<int, int> counts = CountDraws(logits, row, draws);
    for (const auto& [token, count] : counts) {
      EXPECT_TRUE(expected.contains(token)) << "token " << token << " drawn " << count << " times";
    }
    double chi_square = 0;
    for (const auto& [token, probability] : expected) {
      const auto found = counts.find(token);
      const double count = found == counts.end() ? 0 : found->second;
      chi_square += std::pow(count - draws * probability, 2) / (draws * probability);
    }
    const double freedom = std::max(1.0, static_cast<double>(expected.size()) - 1);
    EXPECT_LT(chi_square, freedom + 5 * std::sqrt(2 * freedom));
  }
};

const std::vector<float> kEight = {1.0f, -0.5f, 2.0f, 0.0f, 1.5f, -2.0f, 0.5f, 1.9f};

TEST_P(SamplingTest, GreedyTakesTheLargestAndTheLowestOfEquals) {
  for (const int vocab : {1, 2, 15, 16, 33, 64, 65, 1000, 49152}) {
    for (const int winner : {0, vocab / 2, vocab - 1}) {
      std::vector<float> logits = NormalValues(vocab, 1.0, 5);
      logits[winner] = 10;
      if (winner + 7 < vocab) logits[winner + 7] = 10;
      EXPECT_EQ(SampleOne(logits, {.temperature = 0}).token, winner) << vocab;
    }
  }
  EXPECT_EQ(SampleOne(std::vector<float>(100, -3.0f), {.temperature = 0}).token, 0);
  EXPECT_EQ(SampleOne(kEight, {.temperature = 0, .top_k = 3, .top_p = 0.1f, .seed = 9}).token, 2);
}

TEST_P(SamplingTest, DrawsFollowTheSoftmax) {
  ExpectDrawn(kEight, {.seed = 1}, Softmax(kEight, 1));
  ExpectDrawn(kEight, {.temperature = 0.5f, .seed = 2}, Softmax(kEight, 0.5));
  ExpectDrawn(kEight, {.temperature = 2, .seed = 3}, Softmax(kEight, 2));
  const std::vector<float> wide = NormalValues(300, 1.5, 3);
  ExpectDrawn(wide, {.seed = 4}, Softmax(wide, 1));
}

TEST_P(SamplingTest, TopKKeepsExactlyK) {
  ExpectDrawn(kEight, {.top_k = 3, .seed = 1}, Softmax(kEight, 1, {2, 4, 7}));
  ExpectDrawn(kEight, {.top_k = 1, .seed = 1}, {{2, 1.0}});
  ExpectDrawn(kEight, {.top_k = 8, .seed = 1}, Softmax(kEight, 1));
  ExpectDrawn(kEight, {.top_k = 1000, .seed = 1}, Softmax(kEight, 1));
  // Ties go to the lowest ids.
  ExpectDrawn(std::vector<float>(200, 1.0f), {.top_k = 2, .seed = 1}, {{0, 0.5}, {1, 0.5}});
}

TEST_P(SamplingTest, TopPKeepsTheSmallestSetThatReachesIt) {
  // Probabilities 0.5, 0.25, 0.125, 0.125 in shuffled order.
  const std::vector<float> logits = {std::log(0.125f), std::log(0.5f), std::log(0.125f),
                                     std::log(0.25f)};
  ExpectDrawn(logits, {.top_p = 0.4f, .seed = 1}, {{1, 1.0}});
  ExpectDrawn(logits, {.top_p = 0.6f, .seed = 1}, {{1, 2.0 / 3}, {3, 1.0 / 3}});
  ExpectDrawn(logits, {.top_p = 0.8f, .seed = 1}, Softmax(logits, 1, {0, 1, 3}));
  ExpectDrawn(logits, {.top_p = 0.95f, .seed = 1}, Softmax(logits, 1));
  ExpectDrawn(logits, {.top_p = 1e-6f, .seed = 1}, {{1, 1.0}});
  ExpectDrawn(logits, {.top_p = 0, .seed = 1}, {{1, 1.0}});
}

TEST_P(SamplingTest, TopPIsOfTheMassThatTopKLeaves) {
  const std::vector<float> logits = {std::log(0.4f), std::log(0.3f), std::log(0.2f),
                                     std::log(0.1f)};
  // Of {0.4, 0.3}, renormalised 0.571 and 0.429: 0.55 is reached by the first alone.
  ExpectDrawn(logits, {.top_k = 2, .top_p = 0.55f, .seed = 1}, {{0, 1.0}});
  ExpectDrawn(logits, {.top_p = 0.55f, .seed = 1}, Softmax(logits, 1, {0, 1}));
}

TEST_P(SamplingTest, MinPIsRelativeToTheLargestAfterTemperature) {
  const std::vector<float> logits = {0, std::log(0.5f), std::log(0.3f), std::log(0.09f)};
  ExpectDrawn(logits, {.min_p = 0.4f, .seed = 1}, Softmax(logits, 1, {0, 1}));
  ExpectDrawn(logits, {.min_p = 1, .seed = 1}, {{0, 1.0}});
  // At temperature 2 the ratios are square roots: 0.3 stands at 0.55, 0.09 at 0.3.
  ExpectDrawn(logits, {.temperature = 2, .min_p = 0.4f, .seed = 1}, Softmax(logits, 2, {0, 1, 2}));
}

TEST_P(SamplingTest, TruncationsOfALargeVocabularyAgreeWithSorting) {
  const std::vector<float> logits = NormalValues(50000, 2.0, 8);
  std::vector<int> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  });
  ExpectDrawn(logits, {.top_k = 40, .seed = 1},
              Softmax(logits, 1, std::vector<int>(order.begin(), order.begin() + 40)), 300);
  const std::map<int, double> all = Softmax(logits, 1);
  double mass = 0;
  std::size_t kept = 0;
  while (mass < 0.02) mass += all.at(order[kept++]);
  ExpectDrawn(logits, {.top_p = 0.02f, .seed = 1},
              Softmax(logits, 1, std::vector<int>(order.begin(), order.begin() + kept)), 300);
}

TEST_P(SamplingTest, FlatRowsKeepTheShareThatTopPNames) {
  const std::vector<float> flat(5000, 0.25f);
  int largest = 0;
  for (const auto& [token, count] : CountDraws(flat, {.top_p = 0.5f, .seed = 3}, 2000)) {
    largest = std::max(largest, token);
  }
  EXPECT_LT(largest, 2501);  // ties to the lowest ids
  EXPECT_GT(largest, 2400);
}

TEST_P(SamplingTest, TinyTemperaturesAreGreedyNotNan) {
  for (const float temperature : {1e-6f, 1e-30f, 1e-40f}) {
    for (const SamplingRow& row : {SamplingRow{.temperature = temperature},
                                   {.temperature = temperature, .top_k = 5},
                                   {.temperature = temperature, .top_p = 0.9f},
                                   {.temperature = temperature, .min_p = 0.1f}}) {
      const SampledToken token = SampleOne(kEight, row);
      EXPECT_TRUE(token.valid);
      EXPECT_EQ(token.token, 2);
    }
  }
}

TEST_P(SamplingTest, LogitsOfMinusInfinityAreNeverDrawn) {
  std::vector<float> logits(100, -kInfinity);
  logits[31] = -1e30f;
  for (const SamplingRow& row : {SamplingRow{},
                                 {.temperature = 0},
                                 {.top_k = 7},
                                 {.top_p = 0.5f},
                                 {.min_p = 0.5f},
                                 {.temperature = 100}}) {
    EXPECT_EQ(SampleOne(logits, row).token, 31);
  }
}

TEST_P(SamplingTest, RowsWithoutADistributionAreInvalid) {
  for (const int vocab : {5, 64, 1001}) {
    for (const int place : {0, vocab / 2, vocab - 1}) {
      for (const float bad : {kNan, kInfinity}) {
        std::vector<float> logits = NormalValues(vocab, 1.0, 2);
        logits[place] = bad;
        for (const SamplingRow& row : {SamplingRow{}, {.temperature = 0}, {.top_p = 0.5f}}) {
          const SampledToken token = SampleOne(logits, row);
          EXPECT_FALSE(token.valid);
          EXPECT_EQ(token.token, -1);
        }
      }
    }
  }
  EXPECT_FALSE(SampleOne(std::vector<float>(10, -kInfinity), {}).valid);
  EXPECT_FALSE(SampleOne({1.0f, 2.0f}, {.banned = std::vector<std::int32_t>{0, 1}}).valid);
}

TEST_P(SamplingTest, ABadRowDoesNotTouchItsNeighbours) {
  std::vector<float> logits = kEight;
  logits.insert(logits.end(), 8, kNan);
  logits.insert(logits.end(), kEight.begin(), kEight.end());
  std::vector<SampledToken> out(3);
  const std::vector<SamplingRow> rows(3, SamplingRow{.seed = 5});
  ASSERT_TRUE(backend_->ops()
                  .Sample(TensorView::Of(logits.data(), DType::kF32, 3, 8), rows, out, *stream_)
                  .ok());
  EXPECT_FALSE(out[1].valid);
  EXPECT_TRUE(out[0].valid);
  EXPECT_EQ(out[0].token, SampleOne(kEight, {.seed = 5}).token);
  EXPECT_EQ(out[2].token, out[0].token);
}

TEST_P(SamplingTest, ASeededDrawDoesNotDependOnBatchMates) {
  const std::vector<float> logits = NormalValues(3000, 1.0, 7);
  const SamplingRow mine = {.temperature = 0.8f, .seed = 42, .position = 17};
  const std::int32_t alone = SampleOne(logits, mine).token;
  for (std::uint64_t other = 0; other < 20; ++other) {
    const std::vector<SampledToken> crowd = SampleAll(
        logits, {{.seed = other}, {.temperature = 0}, mine, {.top_p = 0.3f, .seed = other}});
    EXPECT_EQ(crowd[2].token, alone);
  }
}

TEST_P(SamplingTest, SeedChoiceAndPositionEachChangeTheDraw) {
  const std::vector<float> flat(100000, 0.0f);
  const std::int32_t token = SampleOne(flat, {.seed = 1, .choice_index = 2, .position = 3}).token;
  EXPECT_EQ(SampleOne(flat, {.seed = 1, .choice_index = 2, .position = 3}).token, token);
  EXPECT_NE(SampleOne(flat, {.seed = 2, .choice_index = 2, .position = 3}).token, token);
  EXPECT_NE(SampleOne(flat, {.seed = 1, .choice_index = 3, .position = 3}).token, token);
  EXPECT_NE(SampleOne(flat, {.seed = 1, .choice_index = 2, .position = 4}).token, token);
  EXPECT_NE(SampleOne(flat, {.seed = 1ull << 40, .choice_index = 2, .position = 3}).token,
            SampleOne(flat, {.seed = 0, .choice_index = 2, .position = 3}).token);
}

INSTANTIATE_TEST_SUITE_P(Backends, SamplingTest, testing::ValuesIn(TestedBackends()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace thresher
