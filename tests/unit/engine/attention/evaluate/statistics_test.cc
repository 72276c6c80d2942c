// The parts of an evaluation that are pure numbers and text.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/attention/evaluate/logit_comparison.h"
#include "engine/attention/evaluate/paired_bootstrap.h"
#include "engine/attention/evaluate/synthetic_tasks.h"

namespace thresher {
namespace {

TEST(BootstrapMean, WeighsStretchesByTheirTokens) {
  const std::vector<StretchSum> stretches = {{2, 1}, {4, 3}};
  const Interval interval = BootstrapMean(stretches, 200, 1);
  EXPECT_DOUBLE_EQ(interval.mean, 1.5);
  EXPECT_DOUBLE_EQ(interval.lower, 4.0 / 3);
  EXPECT_DOUBLE_EQ(interval.upper, 2.0);
  EXPECT_EQ(BootstrapMean({}, 200, 1).upper, 0);
}

TEST(BootstrapMean, CoversTheNormalInterval) {
  // 400 stretches of one value each, ±1: standard error 1 / 20.
  std::vector<StretchSum> stretches;
  for (int i = 0; i < 400; ++i) stretches.push_back({i % 2 == 0 ? 1.0 : -1.0, 1});
  const Interval interval = BootstrapMean(stretches, 4000, 7);
  EXPECT_EQ(interval.mean, 0);
  // 1.96 / 20, within what 4,000 resamples resolve.
  EXPECT_NEAR(interval.upper, 0.098, 0.01);
  EXPECT_NEAR(interval.lower, -0.098, 0.01);
}

LogitComparison CompareLogits(const std::vector<float>& dense, const std::vector<float>& sparse,
                              std::int32_t target) {
  DenseDistribution distribution;
  distribution.Set(dense);
  return distribution.Compare(sparse, target);
}

TEST(DenseDistribution, KnowsTheClosedForm) {
  // p = (1/2, 1/4, 1/4), q = (1/4, 1/2, 1/4): KL = 1/2 ln 2 − 1/4 ln 2.
  const std::vector<float> dense = {std::log(2.0f) + 5, 5, 5},
                           sparse = {-3, std::log(2.0f) - 3, -3};
  const LogitComparison result = CompareLogits(dense, sparse, 0);
  EXPECT_NEAR(result.dense_nll, std::log(2.0), 1e-6);
  EXPECT_NEAR(result.sparse_nll, std::log(4.0), 1e-6);
  EXPECT_NEAR(result.kl, 0.25 * std::log(2.0), 1e-6);
  EXPECT_FALSE(result.same_top);
}

TEST(DenseDistribution, EqualRowsAreAtZero) {
  std::vector<float> logits;
  for (int i = 0; i < 1000; ++i) logits.push_back(std::sin(static_cast<float>(i)) * 8);
  const LogitComparison result = CompareLogits(logits, logits, 3);
  EXPECT_EQ(result.kl, 0);
  EXPECT_EQ(result.dense_nll, result.sparse_nll);
  EXPECT_TRUE(result.same_top);
}

std::string Haystack() {
  std::string text;
  for (int i = 0; i < 4000; ++i) text += "word" + std::to_string(i) + " ";
  return text;
}

TEST(SyntheticTasks, HideTheAnswersInTextOfTheLengthAskedFor) {
  const std::string haystack = Haystack();
  for (const TaskKind kind : kAllTaskKinds) {
    const Task task = MakeTask(kind, 11, haystack, 8000);
    EXPECT_GT(task.prompt.size(), 8000u) << Name(kind);
    EXPECT_LT(task.prompt.size(), 9000u) << Name(kind);
    EXPECT_EQ(ScoreAnswer(task, task.prompt), 1) << Name(kind);
    EXPECT_EQ(ScoreAnswer(task, ""), 0) << Name(kind);
    EXPECT_EQ(MakeTask(kind, 11, haystack, 8000).prompt, task.prompt);
    EXPECT_NE(MakeTask(kind, 12, haystack, 8000).prompt, task.prompt);
  }
}

TEST(SyntheticTasks, ScoreWholeWordsOnly) {
  const Task task{.prompt = "", .answers = {"123456", "ANCHOR"}};
  EXPECT_EQ(ScoreAnswer(task, " 123456, and ANCHOR."), 1);
  EXPECT_EQ(ScoreAnswer(task, "1234567 ANCHORS ANCHOR"), 0.5);
  EXPECT_EQ(ScoreAnswer(task, "123 456"), 0);
}

TEST(SyntheticTasks, MultiKeyNeedleAsksForOneOfFour) {
  const Task task = MakeTask(TaskKind::kMultiKeyNeedle, 3, Haystack(), 6000);
  std::size_t facts = 0;
  for (std::size_t at = task.prompt.find("The secret number"); at != std::string::npos;
       at = task.prompt.find("The secret number", at + 1)) {
    ++facts;
  }
  EXPECT_EQ(facts, 5u);  // and once in the answer's beginning
  EXPECT_EQ(task.answers.size(), 1u);
}

}  // namespace
}  // namespace thresher
