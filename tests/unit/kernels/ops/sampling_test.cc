// Sampling by the rules of ops/sampling.h, for every instruction set that the machine has.
#include "kernels/ops/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/ops/transformer_ops.h"
#include "tests/support/cpu_backends.h"
#include "tests/support/reference/numbers.h"

namespace thresher {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class SamplingTest : public testing::TestWithParam<CpuVariant> {
 protected:
  void SetUp() override {
    if (!MachineRuns(GetParam())) GTEST_SKIP() << "this machine lacks the instruction set";
    backend_ = MakeCpuBackend(GetParam());
    stream_ = backend_->device().CreateStream().value();
  }

  // One row for each element of `rows`, all with the same logits.
  std::vector<SampledToken> SampleAll(const std::vector<float>& logits,
                                      const std::vector<SamplingRow>& rows) {
    std::vector<float> all;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      all.insert(all.end(), logits.begin(), logits.end());
    }
    std::vector<SampledToken> out(rows.size());
    const absl::Status status = backend_->ops().Sample(
        TensorView::Of(all.data(), DType::kF32, static_cast<std::int64_t>(rows.size()),
                       static_cast<std::int64_t>(logits.size())),
        rows, out, *stream_);
    EXPECT_TRUE(status.ok()) << status;
    return out;
  }
  SampledToken SampleOne(const std::vector<float>& logits, const SamplingRow& row) {
    return SampleAll(logits, {row})[0];
  }

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

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
};

// Softmax of logits / temperature over the tokens given, or all.
std::map<int, double> Softmax(const std::vector<float>& logits, double temperature,
                              std::vector<int> tokens = {}) {
  if (tokens.empty()) {
    for (std::size_t i = 0; i < logits.size(); ++i) tokens.push_back(static_cast<int>(i));
  }
  std::map<int, double> result;
  double sum = 0;
  for (const int token : tokens) sum += result[token] = std::exp(logits[token] / temperature);
  for (auto& [token, probability] : result) probability /= sum;
  return result;
}

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

TEST_P(SamplingTest, PenaltiesCountWhatTheyShould) {
  // Token 0 is three times in the prompt; token 1 is twice generated; token 2 is negative.
  const std::vector<float> logits = {2.0f, 2.5f, -1.0f, 1.9f};
  const std::vector<TokenCount> counts = {{0, 3, 0}, {1, 0, 2}, {2, 1, 1}};
  const auto logprobs = [&](SamplingRow row) {
    row.counts = counts;
    row.temperature = 0;
    row.num_top_logprobs = 4;
    std::map<int, double> result;
    const SampledToken token = SampleOne(logits, row);
    for (int i = 0; i < token.num_top; ++i) result[token.top[i].token] = token.top[i].logprob;
    return result;
  };
  const auto expect = [&](const SamplingRow& row, const std::vector<float>& penalised) {
    const std::map<int, double> actual = logprobs(row);
    for (const auto& [token, probability] : Softmax(penalised, 1)) {
      EXPECT_NEAR(actual.at(token), std::log(probability), 1e-6) << token;
    }
  };
  expect({}, logits);
  expect({.presence_penalty = 2}, {2.0f, 0.5f, -3.0f, 1.9f});
  expect({.frequency_penalty = 0.5f}, {2.0f, 1.5f, -1.5f, 1.9f});
  expect({.repetition_penalty = 2}, {1.0f, 1.25f, -2.0f, 1.9f});
  expect({.repetition_penalty = 2, .presence_penalty = 1, .frequency_penalty = -0.5f},
         {1.0f, 1.25f, -2.5f, 1.9f});
}

TEST_P(SamplingTest, BiasesComeBeforePenaltiesAndBansHold) {
  const std::vector<TokenBias> bias = {{0, -3.0f}, {3, 5.0f}, {5, -kInfinity}};
  const std::vector<TokenCount> counts = {{0, 1, 0}, {3, 1, 0}};
  // Token 0: 1 − 3 = −2, doubled; token 3: 0 + 5 = 5, halved.
  SamplingRow row = {.temperature = 0, .repetition_penalty = 2, .num_top_logprobs = 8};
  row.counts = counts;
  row.logit_bias = bias;
  const SampledToken token = SampleOne(kEight, row);
  EXPECT_EQ(token.token, 3);
  EXPECT_EQ(token.num_top, 7);  // the banned one is not listed
  std::map<int, double> top;
  for (int i = 0; i < token.num_top; ++i) top[token.top[i].token] = token.top[i].logprob;
  EXPECT_FALSE(top.contains(5));
  EXPECT_NEAR(top.at(3) - top.at(2), 2.5 - 2.0, 1e-6);
  EXPECT_NEAR(top.at(0) - top.at(2), -4.0 - 2.0, 1e-6);
  const std::vector<std::int32_t> banned = {2, 7, 4};
  EXPECT_EQ(SampleOne(kEight, {.temperature = 0, .banned = banned}).token, 0);
}

TEST_P(SamplingTest, LogprobsAreTakenBeforeTemperatureAndTruncation) {
  const std::vector<float> logits = NormalValues(1000, 2.0, 4);
  const std::map<int, double> all = Softmax(logits, 1);
  const SampledToken token = SampleOne(
      logits, {.temperature = 0.3f, .top_k = 5, .top_p = 0.9f, .seed = 2, .num_top_logprobs = 20});
  EXPECT_NEAR(token.logprob, std::log(all.at(token.token)), 1e-5);
  EXPECT_EQ(token.num_top, 20);
  int larger = 0;
  for (const float logit : logits) larger += logit > logits[token.token] ? 1 : 0;
  EXPECT_EQ(token.rank, 1 + larger);
  for (int i = 0; i < 20; ++i) {
    EXPECT_NEAR(token.top[i].logprob, std::log(all.at(token.top[i].token)), 1e-5);
    if (i > 0) {
      EXPECT_LE(token.top[i].logprob, token.top[i - 1].logprob);
    }
  }
}

TEST_P(SamplingTest, TopLogprobsOfEqualLogitsAreTheLowestIds) {
  const SampledToken token =
      SampleOne(std::vector<float>(500, 1.0f), {.temperature = 0, .num_top_logprobs = 3});
  ASSERT_EQ(token.num_top, 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(token.top[i].token, i);
  EXPECT_EQ(token.rank, 1);
  EXPECT_NEAR(token.logprob, -std::log(500.0), 1e-6);
  EXPECT_EQ(SampleOne({1.0f, 2.0f}, {.temperature = 0, .num_top_logprobs = 20}).num_top, 2);
  EXPECT_EQ(SampleOne({1.0f, 2.0f}, {.temperature = 0, .num_top_logprobs = 0}).num_top, 0);
}

TEST_P(SamplingTest, ScoresGivenTokens) {
  std::vector<float> logits = NormalValues(3 * 777, 2.0, 4);
  const std::vector<float> before = logits;
  logits[2 * 777 + 5] = kNan;
  std::vector<SampledToken> out(3);
  const std::vector<std::int32_t> targets = {0, 776, 3};
  const std::vector<int> num_top = {0, 5, 2};
  const TensorView view = TensorView::Of(logits.data(), DType::kF32, 3, 777);
  ASSERT_TRUE(backend_->ops().ScoreTokens(view, targets, num_top, out, *stream_).ok());
  for (int row = 0; row < 2; ++row) {
    const std::vector<float> mine(before.begin() + row * 777, before.begin() + (row + 1) * 777);
    const std::map<int, double> all = Softmax(mine, 1);
    int larger = 0;
    for (const float logit : mine) larger += logit > mine[targets[row]] ? 1 : 0;
    EXPECT_EQ(out[row].token, targets[row]);
    EXPECT_NEAR(out[row].logprob, std::log(all.at(targets[row])), 1e-5);
    EXPECT_EQ(out[row].rank, 1 + larger);
    EXPECT_EQ(out[row].num_top, num_top[row]);
  }
  EXPECT_FALSE(out[2].valid);
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 2 * 777, logits.begin()));
  const std::vector<std::int32_t> outside = {0, 777, 3};
  EXPECT_EQ(backend_->ops().ScoreTokens(view, outside, num_top, out, *stream_).message(),
            "score_tokens: targets is 777, expected 0 to 776");
}

TEST_P(SamplingTest, BadRowsAreNamed) {
  const auto message_of = [&](const SamplingRow& row) {
    std::vector<float> logits = kEight;
    std::vector<SampledToken> out(1);
    return std::string(
        backend_->ops()
            .Sample(TensorView::Of(logits.data(), DType::kF32, 1, 8), {&row, 1}, out, *stream_)
            .message());
  };
  EXPECT_EQ(message_of({.temperature = -1}),
            "sample: temperature is -1.000000, expected a finite number, at least 0");
  EXPECT_EQ(message_of({.temperature = kNan}),
            "sample: temperature is nan, expected a finite number, at least 0");
  EXPECT_EQ(message_of({.top_p = 1.5f}), "sample: top_p is 1.500000, expected 0 to 1");
  EXPECT_EQ(message_of({.min_p = kNan}), "sample: min_p is nan, expected 0 to 1");
  EXPECT_EQ(message_of({.num_top_logprobs = 21}),
            "sample: num_top_logprobs is 21, expected -1 to 20");
  EXPECT_EQ(message_of({.banned = std::vector<std::int32_t>{8}}),
            "sample: banned is 8, expected 0 to 7");
  EXPECT_EQ(message_of({.counts = std::vector<TokenCount>{{-1, 1, 1}}}),
            "sample: counts.token is -1, expected 0 to 7");
  EXPECT_EQ(message_of({.logit_bias = std::vector<TokenBias>{{0, kNan}}}),
            "sample: logit_bias.bias is nan, expected a number below infinity");
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, SamplingTest, testing::ValuesIn(kCpuVariants),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace thresher
