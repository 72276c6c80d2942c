// What one plan holds: decodes first, chunks that share the budget, tokens that are still pending.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/simulation/step_driver.h"

namespace thresher::simulation {
namespace {

TEST(ScheduleStep, PutsDecodesBeforePrefillChunks) {
  StepDriver driver(SmallOptions());
  ASSERT_TRUE(driver.Submit(SpecOf(1, 20, 50)).ok());
  driver.Step();
  ASSERT_TRUE(driver.Submit(SpecOf(2, 500, 5, 5000)).ok());
  const StepPlan& plan = driver.Schedule();
  ASSERT_EQ(plan.sequences.size(), 2u);
  EXPECT_EQ(plan.sequences[0].id, RequestId{1});
  EXPECT_EQ(plan.sequences[0].query_length, 1);
  EXPECT_EQ(plan.sequences[0].context_length, 20);
  EXPECT_TRUE(plan.sequences[0].samples);
  EXPECT_EQ(plan.TokensOf(plan.sequences[0])[0], 100);
  EXPECT_EQ(plan.sequences[1].query_length, 135);  // the rest of the budget
  EXPECT_FALSE(plan.sequences[1].samples);
  EXPECT_EQ(plan.BlocksOf(plan.sequences[1]).size(), 9u);
  EXPECT_EQ(plan.num_tokens, 136);
  EXPECT_EQ(plan.num_samples, 1);
}

TEST(ScheduleStep, CutsChunksAtTheRequestsMultiple) {
  StepDriver driver(SmallOptions());
  RequestSpec spec = SpecOf(1, 300, 5);
  spec.prefill_chunk_multiple = 128;
  ASSERT_TRUE(driver.Submit(spec).ok());
  for (const int length : {128, 128, 44}) {
    driver.Step();
    EXPECT_EQ(driver.Entry(1)->query_length, length);
    EXPECT_EQ(driver.Entry(1)->samples, length == 44);
  }
}

TEST(ScheduleStep, AFullLoadOfDecodesLeavesRoomForAChunkOf128) {
  StepDriver driver(SmallOptions());
  for (int id = 1; id <= 7; ++id) ASSERT_TRUE(driver.Submit(SpecOf(id, 8, 80, 1000 * id)).ok());
  driver.Step();
  RequestSpec spec = SpecOf(9, 300, 5);
  spec.prefill_chunk_multiple = 128;
  ASSERT_TRUE(driver.Submit(spec).ok());
  EXPECT_EQ(driver.Step().sequences.size(), 8u);
  EXPECT_EQ(driver.Entry(9)->query_length, 128);
}

TEST(ScheduleStep, TheOldestPrefillMovesEvenIfHalfTheBudgetDoesNotReachItsBorder) {
  StepDriver driver(SmallOptions());
  RequestSpec spec = SpecOf(1, 600, 5);
  spec.prefill_chunk_multiple = 128;
  ASSERT_TRUE(driver.Submit(spec).ok());
  driver.Step();
  ASSERT_TRUE(driver.Submit(SpecOf(2, 100, 5, 5000)).ok());
  driver.Step();
  EXPECT_EQ(driver.Entry(1)->query_length, 128);
  EXPECT_EQ(driver.Entry(2)->query_length, 8);
}

TEST(ScheduleStep, ALongPromptLeavesRoomForShortOnes) {
  StepDriver driver(SmallOptions());
  ASSERT_TRUE(driver.Submit(SpecOf(1, 900, 5)).ok());
  driver.Step();
  EXPECT_EQ(driver.Entry(1)->query_length, 136);  // alone, it takes all
  for (int id = 2; id <= 4; ++id) ASSERT_TRUE(driver.Submit(SpecOf(id, 20, 3, 1000 * id)).ok());
  driver.Step();
  // It keeps half, or more where the others do not need theirs.
  EXPECT_EQ(driver.Entry(1)->query_length, 136 - 60);
  for (int id = 2; id <= 4; ++id) EXPECT_TRUE(driver.Entry(id)->samples) << id;
}

TEST(ScheduleStep, ALongPromptFinishesUnderASteadyLoadOfShortOnes) {
  StepDriver driver(SmallOptions());
  ASSERT_TRUE(driver.Submit(SpecOf(1, 900, 1)).ok());
  int steps = 0;
  while (driver.finished().count(1) == 0) {
    ASSERT_TRUE(driver.Submit(SpecOf(100 + steps, 60, 1, 100 * steps)).ok());
    driver.Step();
    // A short one samples in the step after its submission at the latest.
    EXPECT_EQ(driver.finished().count(100 + std::max(0, steps - 1)), 1u) << steps;
    ++steps;
  }
  EXPECT_LE(steps, 900 / 64 + 1);  // half of the least budget a step
}

TEST(ScheduleStep, AtMostTwoPromptsAreComputedOverSeveralSteps) {
  StepDriver driver(SmallOptions());
  for (int id = 1; id <= 4; ++id) ASSERT_TRUE(driver.Submit(SpecOf(id, 240, 2, 1000 * id)).ok());
  ASSERT_TRUE(driver.Submit(SpecOf(5, 8, 2, 9000)).ok());
  driver.Step();
  EXPECT_TRUE(driver.Entry(1) && driver.Entry(2));
  EXPECT_FALSE(driver.Entry(3) || driver.Entry(4));
  EXPECT_TRUE(driver.Entry(5)->samples);  // passes the long ones at once
}

TEST(ScheduleStep, NamesTokensThatAreStillBeingSampled) {
  StepDriver driver(SmallOptions());
  ASSERT_TRUE(driver.Submit(SpecOf(1, 15, 3)).ok());
  driver.Schedule();
  const StepPlan& second = driver.Schedule();
  EXPECT_EQ(second.TokensOf(second.sequences[0])[0], kPendingToken);
  EXPECT_EQ(second.sequences[0].context_length, 15);
  driver.Commit();
  const StepPlan& third = driver.Schedule();
  EXPECT_EQ(third.sequences[0].context_length, 16);
  EXPECT_EQ(third.sequences[0].num_blocks, 2);
  EXPECT_EQ(third.TokensOf(third.sequences[0])[0], kPendingToken);
  driver.Commit();
  EXPECT_TRUE(driver.Schedule().empty());  // its third and last token is under way
  EXPECT_FALSE(driver.scheduler().idle());
  driver.Commit();
  EXPECT_EQ(driver.finished().at(1).cause, FinishCause::kLength);
  EXPECT_EQ(driver.finished().at(1).num_generated, 3);
  EXPECT_TRUE(driver.scheduler().idle());
}

TEST(ScheduleStep, IgnoresTheSampleAfterTheEndAndFreesItsBlocksThen) {
  StepDriver driver(SmallOptions());
  ASSERT_TRUE(driver.Submit(SpecOf(1, 40, 50)).ok());
  driver.Schedule();
  driver.Schedule();
  driver.Commit(/*ending=*/{1});
  EXPECT_EQ(driver.finished().at(1).cause, FinishCause::kEndToken);
  EXPECT_EQ(driver.finished().at(1).num_generated, 1);
  EXPECT_EQ(driver.scheduler().load().num_running, 0);
  EXPECT_EQ(driver.scheduler().load().blocks_owned, 3);
  EXPECT_FALSE(driver.scheduler().idle());
  driver.Commit();
  EXPECT_EQ(driver.scheduler().load().blocks_owned, 0);
  EXPECT_TRUE(driver.scheduler().idle());
}

TEST(ScheduleStep, EndsAtTheLongestSequence) {
  SchedulerOptions options = SmallOptions();
  options.max_sequence_length = 30;
  StepDriver driver(options);
  ASSERT_TRUE(driver.Submit(SpecOf(1, 25, 100)).ok());
  ASSERT_TRUE(driver.Submit(SpecOf(2, 25, std::nullopt)).ok());
  driver.Drain();
  for (const int id : {1, 2}) {
    EXPECT_EQ(driver.finished().at(id).cause, FinishCause::kLength);
    EXPECT_EQ(driver.finished().at(id).num_generated, 5);
  }
}

TEST(ScheduleStepDeathTest, EndsTheProcessOnAThirdPlanOrAWrongOrder) {
  StepDriver driver(SmallOptions());
  ASSERT_TRUE(driver.Submit(SpecOf(1, 10, 50)).ok());
  const StepId first = driver.Schedule().step;
  driver.Schedule();
  EXPECT_DEATH(driver.Schedule(), "two plans");
  std::vector<FinishedRequest> finished;
  EXPECT_DEATH(
      driver.scheduler().Commit(StepId{static_cast<std::int64_t>(first) + 1}, {}, finished),
      "in order");
  EXPECT_DEATH(driver.scheduler().Commit(first, {}, finished), "one sample for each");
}

}  // namespace
}  // namespace thresher::simulation
