// Biases, penalties, log-probabilities and refusals of sampling.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/support/reference/numbers.h"
#include "tests/support/sampling_fixture.h"

namespace thresher {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class SamplingLogprobsTest : public SamplingFixture {};

const std::vector<float> kEight = {1.0f, -0.5f, 2.0f, 0.0f, 1.5f, -2.0f, 0.5f, 1.9f};

TEST_P(SamplingLogprobsTest, PenaltiesCountWhatTheyShould) {
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

TEST_P(SamplingLogprobsTest, BiasesComeBeforePenaltiesAndBansHold) {
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

TEST_P(SamplingLogprobsTest, LogprobsAreTakenBeforeTemperatureAndTruncation) {
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

TEST_P(SamplingLogprobsTest, TopLogprobsOfEqualLogitsAreTheLowestIds) {
  const SampledToken token =
      SampleOne(std::vector<float>(500, 1.0f), {.temperature = 0, .num_top_logprobs = 3});
  ASSERT_EQ(token.num_top, 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(token.top[i].token, i);
  EXPECT_EQ(token.rank, 1);
  EXPECT_NEAR(token.logprob, -std::log(500.0), 1e-6);
  EXPECT_EQ(SampleOne({1.0f, 2.0f}, {.temperature = 0, .num_top_logprobs = 20}).num_top, 2);
  EXPECT_EQ(SampleOne({1.0f, 2.0f}, {.temperature = 0, .num_top_logprobs = 0}).num_top, 0);
}

TEST_P(SamplingLogprobsTest, ScoresGivenTokens) {
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
}

TEST_P(SamplingLogprobsTest, ABadTargetFailsItsOwnRowOnly) {
  std::vector<float> logits(3 * 8, 0.5f);
  const std::vector<std::int32_t> targets = {1, 8, 3};
  const std::vector<int> num_top = {0, 0, 21};
  std::vector<SampledToken> out(3);
  const TensorView view = TensorView::Of(logits.data(), DType::kF32, 3, 8);
  ASSERT_TRUE(backend_->ops().ScoreTokens(view, targets, num_top, out, *stream_).ok());
  EXPECT_TRUE(out[0].valid);
  EXPECT_FALSE(out[1].valid);
  EXPECT_STREQ(out[1].bad_field, "targets");
  EXPECT_FALSE(out[2].valid);
  EXPECT_STREQ(out[2].bad_field, "num_top");
}

// Beside a good row, which is drawn all the same.
TEST_P(SamplingLogprobsTest, ABadRowIsNamedAndFailsAlone) {
  const auto bad_field_of = [&](const SamplingRow& row) {
    std::vector<float> logits = kEight;
    logits.insert(logits.end(), kEight.begin(), kEight.end());
    std::vector<SampledToken> out(2);
    const SamplingRow rows[] = {row, {.temperature = 0}};
    const absl::Status status = backend_->ops().Sample(
        TensorView::Of(logits.data(), DType::kF32, 2, 8), rows, out, *stream_);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_FALSE(out[0].valid);
    EXPECT_EQ(out[0].token, -1);
    EXPECT_TRUE(out[1].valid);
    EXPECT_EQ(out[1].token, std::max_element(kEight.begin(), kEight.end()) - kEight.begin());
    return std::string(out[0].bad_field == nullptr ? "" : out[0].bad_field);
  };
  EXPECT_EQ(bad_field_of({.temperature = -1}), "temperature");
  EXPECT_EQ(bad_field_of({.temperature = kNan}), "temperature");
  EXPECT_EQ(bad_field_of({.top_k = -1}), "top_k");
  EXPECT_EQ(bad_field_of({.top_p = 1.5f}), "top_p");
  EXPECT_EQ(bad_field_of({.min_p = kNan}), "min_p");
  EXPECT_EQ(bad_field_of({.repetition_penalty = 0}), "repetition_penalty");
  EXPECT_EQ(bad_field_of({.presence_penalty = kNan}), "presence_penalty");
  EXPECT_EQ(bad_field_of({.frequency_penalty = kNan}), "frequency_penalty");
  EXPECT_EQ(bad_field_of({.num_top_logprobs = 21}), "num_top_logprobs");
  EXPECT_EQ(bad_field_of({.num_top_logprobs = -2}), "num_top_logprobs");
  EXPECT_EQ(bad_field_of({.banned = std::vector<std::int32_t>{8}}), "banned");
  EXPECT_EQ(bad_field_of({.counts = std::vector<TokenCount>{{-1, 1, 1}}}), "counts.token");
  EXPECT_EQ(bad_field_of({.logit_bias = std::vector<TokenBias>{{8, 1}}}), "logit_bias.token");
  EXPECT_EQ(bad_field_of({.logit_bias = std::vector<TokenBias>{{0, kNan}}}), "logit_bias.bias");
}

INSTANTIATE_TEST_SUITE_P(Backends, SamplingLogprobsTest, testing::ValuesIn(TestedBackends()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace thresher
