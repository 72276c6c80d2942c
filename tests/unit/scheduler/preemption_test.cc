// What happens when blocks run out under sequences that hold no promise.
#include <gtest/gtest.h>

#include "tests/support/simulation/step_driver.h"

namespace thresher::simulation {
namespace {

SchedulerOptions Eager(int num_blocks) {
  SchedulerOptions options = SmallOptions();
  options.admission = Admission::kEager;
  options.num_blocks = num_blocks;
  options.prefix_cache = false;
  return options;
}

TEST(Preemption, PreemptsNewestFirstWithinTheLowestPriority) {
  StepDriver driver(Eager(4));
  const int priorities[] = {0, 1, 1, 0};
  for (int id = 0; id < 4; ++id) {
    RequestSpec spec = SpecOf(id, 15, 40, 1000 * id);
    spec.priority = priorities[id];
    ASSERT_TRUE(driver.Submit(spec).ok());
  }
  driver.Step();
  driver.Step();  // row 15
  driver.Step();  // row 16 needs a second block
  EXPECT_EQ(driver.Progress(2).state, RequestState::kPreempted);
  EXPECT_EQ(driver.Progress(1).state, RequestState::kPreempted);
  EXPECT_EQ(driver.Progress(0).state, RequestState::kRunning);
  EXPECT_EQ(driver.Progress(3).state, RequestState::kRunning);
  driver.Drain();
  EXPECT_EQ(driver.finished().size(), 4u);
}

TEST(Preemption, RecomputesWithTheTokensGeneratedBeforeApartFromThePrompt) {
  StepDriver driver(Eager(3));
  ASSERT_TRUE(driver.Submit(SpecOf(1, 12, 30)).ok());  // 41 rows: all three blocks
  ASSERT_TRUE(driver.Submit(SpecOf(2, 12, 8, 1000)).ok());
  while (driver.Progress(1).num_preemptions + driver.Progress(2).num_preemptions == 0) {
    driver.Step();
  }
  ASSERT_EQ(driver.Progress(2).num_preemptions, 1);
  EXPECT_EQ(driver.Progress(2).num_computed_tokens, 0);
  while (!(driver.Step(), driver.Entry(2))) {
  }
  EXPECT_EQ(driver.finished().count(1), 1u);  // it came back when the other had ended
  EXPECT_EQ(driver.Entry(2)->context_length, 0);
  EXPECT_EQ(driver.Entry(2)->query_length, 12);  // the prompt, no further
  EXPECT_FALSE(driver.Entry(2)->samples);
  const StepPlan& plan = driver.Step();
  EXPECT_EQ(driver.Entry(2)->context_length, 12);
  EXPECT_EQ(driver.Entry(2)->query_length, 5);  // all that was generated, in one chunk
  EXPECT_TRUE(driver.Entry(2)->samples);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(plan.TokensOf(plan.sequences[0])[i], 100 + i);
  driver.Drain();
  EXPECT_EQ(driver.finished().at(2).num_generated, 8);
  EXPECT_EQ(driver.scheduler().load().num_preemptions, 1);
}

TEST(Preemption, ResumesBehindItsOwnCachedBlocks) {
  SchedulerOptions options = Eager(6);
  options.prefix_cache = true;
  StepDriver driver(options);
  ASSERT_TRUE(driver.Submit(SpecOf(1, 20, 60)).ok());
  ASSERT_TRUE(driver.Submit(SpecOf(2, 40, 40, 1000)).ok());
  while (driver.Progress(2).num_preemptions == 0) driver.Step();
  driver.scheduler().Cancel(RequestId{1});
  while (!(driver.Step(), driver.Entry(2))) {
  }
  EXPECT_GE(driver.Entry(2)->context_length, 32);
  EXPECT_EQ(driver.Progress(2).num_prefix_hit_tokens, 0);  // of its first admission
  driver.Drain();
  EXPECT_EQ(driver.finished().at(2).num_generated, 40);
}

TEST(Preemption, NeverTouchesAPromise) {
  SchedulerOptions options = SmallOptions();
  options.num_blocks = 8;
  options.reserve_tokens = 16;
  StepDriver driver(options);
  ASSERT_TRUE(driver.Submit(SpecOf(1, 16, std::nullopt)).ok());
  ASSERT_TRUE(driver.Submit(SpecOf(2, 16, 65, 1000)).ok());  // five blocks, newer
  driver.Drain();
  EXPECT_EQ(driver.finished().at(2).num_generated, 65);
  EXPECT_EQ(driver.finished().at(1).num_generated, 8 * 16 + 1 - 16);  // to the end of the pool
  EXPECT_GT(driver.scheduler().load().num_preemptions, 0);
}

TEST(Preemption, WaitsForBlocksThatAPlanInFlightStillNames) {
  StepDriver driver(Eager(2));
  ASSERT_TRUE(driver.Submit(SpecOf(1, 14, 18)).ok());
  ASSERT_TRUE(driver.Submit(SpecOf(2, 15, 10, 1000)).ok());
  driver.Schedule();
  driver.Schedule();  // rows 14 and 15
  driver.Commit();
  driver.Schedule();  // row 15 of the first; the second needs a block and preempts itself
  EXPECT_TRUE(driver.Entry(1).has_value());
  EXPECT_FALSE(driver.Entry(2).has_value());
  EXPECT_EQ(driver.Progress(2).state, RequestState::kPreempted);
  EXPECT_EQ(driver.scheduler().load().blocks_owned, 2);  // the plan in flight names its block
  driver.Commit();
  EXPECT_EQ(driver.scheduler().load().blocks_owned, 1);
  driver.Drain();
  EXPECT_EQ(driver.finished().at(1).num_generated, 18);
  EXPECT_EQ(driver.finished().at(2).num_generated, 10);
}

TEST(Preemption, WaitsForBlocksOfARequestThatHasEndedInsteadOfPreempting) {
  StepDriver driver(Eager(3));
  ASSERT_TRUE(driver.Submit(SpecOf(1, 14, 18)).ok());
  ASSERT_TRUE(driver.Submit(SpecOf(2, 3, 5, 1000)).ok());
  ASSERT_TRUE(driver.Submit(SpecOf(3, 3, 5, 2000)).ok());
  driver.Schedule();
  driver.Schedule();
  driver.Commit(/*ending=*/{3});
  driver.Schedule();
  driver.Commit();  // the second plan named the block of the third request
  driver.Schedule();
  EXPECT_TRUE(driver.Entry(1).has_value());  // row 16: that block
  EXPECT_EQ(driver.scheduler().load().num_preemptions, 0);
  driver.Drain();
  EXPECT_EQ(driver.scheduler().load().num_preemptions, 0);
}

TEST(Preemption, StallsAStepWhereBlocksAreComing) {
  StepDriver driver(Eager(3));
  ASSERT_TRUE(driver.Submit(SpecOf(1, 15, 17)).ok());
  ASSERT_TRUE(driver.Submit(SpecOf(2, 3, 5, 1000)).ok());
  ASSERT_TRUE(driver.Submit(SpecOf(3, 3, 5, 2000)).ok());
  driver.Schedule();
  driver.Schedule();  // row 15
  driver.Commit(/*ending=*/{3});
  driver.Schedule();  // row 16 needs a block, and the plan in flight still names the third's
  EXPECT_FALSE(driver.Entry(1).has_value());
  EXPECT_TRUE(driver.Entry(2).has_value());
  driver.Commit();
  driver.Schedule();
  EXPECT_TRUE(driver.Entry(1).has_value());
  EXPECT_EQ(driver.scheduler().load().num_preemptions, 0);
}

TEST(Preemption, AdmitsNobodyInAStepThatPreempts) {
  StepDriver driver(Eager(4));
  ASSERT_TRUE(driver.Submit(SpecOf(1, 15, 40)).ok());
  ASSERT_TRUE(driver.Submit(SpecOf(2, 47, 10, 1000)).ok());
  driver.Step();
  driver.Step();
  ASSERT_TRUE(driver.Submit(SpecOf(3, 10, 2, 2000)).ok());
  driver.Step();  // the first needs a block: the second goes, and leaves room for the third
  EXPECT_EQ(driver.Progress(2).num_preemptions, 1);
  EXPECT_FALSE(driver.Entry(3).has_value());
  driver.Step();
  EXPECT_TRUE(driver.Entry(3).has_value());
}

TEST(Preemption, CancelsWhileItsLastPlanIsInFlight) {
  StepDriver driver(Eager(2));
  ASSERT_TRUE(driver.Submit(SpecOf(1, 14, 18)).ok());
  ASSERT_TRUE(driver.Submit(SpecOf(2, 15, 10, 1000)).ok());
  driver.Schedule();
  driver.Schedule();
  driver.Commit();
  driver.Schedule();
  ASSERT_EQ(driver.Progress(2).state, RequestState::kPreempted);
  driver.scheduler().Cancel(RequestId{2});
  EXPECT_EQ(driver.scheduler().Progress(RequestId{2}), std::nullopt);
  driver.Commit();
  EXPECT_EQ(driver.finished().at(2).cause, FinishCause::kCancelled);
  EXPECT_EQ(driver.finished().at(2).num_generated, 1);
  EXPECT_EQ(driver.scheduler().load().blocks_owned, 1);
  driver.Drain();
  EXPECT_EQ(driver.finished().size(), 2u);
}

}  // namespace
}  // namespace thresher::simulation
