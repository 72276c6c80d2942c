// Who starts: promises, look-ahead past what does not fit, ageing, priorities, leaders.
#include <gtest/gtest.h>

#include "tests/support/simulation/step_driver.h"

namespace thresher::simulation {
namespace {

TEST(Admission, StartsOnlyWhatCanBePromisedToItsEnd) {
  SchedulerOptions options = SmallOptions();
  options.num_blocks = 10;
  StepDriver driver(options);
  ASSERT_TRUE(driver.Submit(SpecOf(1, 16, 65)).ok());        // five blocks
  ASSERT_TRUE(driver.Submit(SpecOf(2, 16, 82, 1000)).ok());  // 97 rows: seven
  ASSERT_TRUE(driver.Submit(SpecOf(3, 16, 66, 2000)).ok());  // 81 rows: six
  driver.Step();
  EXPECT_TRUE(driver.Entry(1).has_value());
  EXPECT_FALSE(driver.Entry(2) || driver.Entry(3));
  EXPECT_EQ(driver.scheduler().load().blocks_owned, 1);  // promised, not yet taken
  driver.Drain();
  EXPECT_EQ(driver.finished().size(), 3u);
  EXPECT_EQ(driver.scheduler().load().num_preemptions, 0);
}

TEST(Admission, KeepsTheReserveOfARequestWithoutALimitFree) {
  SchedulerOptions options = SmallOptions();
  options.num_blocks = 10;
  options.reserve_tokens = 64;
  StepDriver driver(options);
  ASSERT_TRUE(driver.Submit(SpecOf(1, 16, std::nullopt)).ok());  // one block and four in reserve
  driver.Step();
  ASSERT_TRUE(driver.Submit(SpecOf(2, 16, 66, 1000)).ok());  // 81 rows: six blocks
  ASSERT_TRUE(driver.Submit(SpecOf(3, 16, 65, 2000)).ok());  // five
  driver.Step();
  EXPECT_FALSE(driver.Entry(2).has_value());
  EXPECT_TRUE(driver.Entry(3).has_value());
}

TEST(Admission, CountsSharedBlocksThatSomebodyHoldsAsNotNeeded) {
  SchedulerOptions options = SmallOptions();
  options.num_blocks = 10;
  StepDriver driver(options);
  ASSERT_TRUE(driver.Submit(SpecOf(1, 97, 16)).ok());  // 112 rows: seven blocks
  driver.Step();
  // Nine blocks of which six are held by the first: three more fit exactly.
  ASSERT_TRUE(driver.Submit(SpecOf(2, 97, 48)).ok());
  driver.Step();
  EXPECT_EQ(driver.Entry(2)->context_length, 96);
  EXPECT_EQ(driver.Entry(2)->query_length, 1);
  driver.Drain();
  EXPECT_EQ(driver.finished().size(), 2u);
}

TEST(Admission, CachedBlocksOfAHitBecomePinned) {
  SchedulerOptions options = SmallOptions();
  options.num_blocks = 10;
  StepDriver driver(options);
  ASSERT_TRUE(driver.Submit(SpecOf(1, 97, 1)).ok());
  driver.Drain();
  EXPECT_EQ(driver.scheduler().load().blocks_cached, 6);
  ASSERT_TRUE(driver.Submit(SpecOf(2, 97, 16)).ok());        // six cached, one new
  ASSERT_TRUE(driver.Submit(SpecOf(3, 49, 16, 1000)).ok());  // four: one more than is left
  driver.Step();
  EXPECT_TRUE(driver.Entry(2).has_value());
  EXPECT_FALSE(driver.Entry(3).has_value());
  EXPECT_EQ(driver.scheduler().load().blocks_cached, 0);
  driver.Drain();
  EXPECT_EQ(driver.finished().size(), 3u);
}

TEST(Admission, OthersPassAHeadThatDoesNotFitUntilItHasAged) {
  SchedulerOptions options = SmallOptions();
  options.num_blocks = 10;
  options.max_head_skips = 3;
  StepDriver driver(options);
  ASSERT_TRUE(driver.Submit(SpecOf(1, 16, 97)).ok());         // seven blocks for a long time
  ASSERT_TRUE(driver.Submit(SpecOf(2, 16, 145, 1000)).ok());  // all ten: does not fit
  for (int id = 3; id <= 8; ++id) {
    ASSERT_TRUE(driver.Submit(SpecOf(id, 16, 2, 1000 * id)).ok());  // two blocks each
  }
  for (int i = 0; i < 20; ++i) driver.Step();
  // Three have passed, one after another; the others wait behind the head.
  EXPECT_EQ(driver.finished().size(), 3u);
  EXPECT_EQ(driver.scheduler().load().num_waiting, 4);
  driver.Drain();
  EXPECT_EQ(driver.finished().size(), 8u);
}

TEST(Admission, LooksOnlySoFarPastTheHead) {
  SchedulerOptions options = SmallOptions();
  options.num_blocks = 10;
  options.max_lookahead = 1;
  StepDriver driver(options);
  ASSERT_TRUE(driver.Submit(SpecOf(1, 16, 97)).ok());
  ASSERT_TRUE(driver.Submit(SpecOf(2, 16, 145, 1000)).ok());
  ASSERT_TRUE(driver.Submit(SpecOf(3, 16, 145, 2000)).ok());
  ASSERT_TRUE(driver.Submit(SpecOf(4, 16, 2, 3000)).ok());
  driver.Step();
  EXPECT_FALSE(driver.Entry(4).has_value());  // two unfit ones stand before it
  driver.scheduler().Cancel(RequestId{3});
  driver.Step();
  EXPECT_TRUE(driver.Entry(4).has_value());
}

TEST(Admission, GoesByPriorityThenArrival) {
  SchedulerOptions options = SmallOptions();
  options.max_running = 1;
  StepDriver driver(options);
  const int priorities[] = {1, 0, 1, -2, 0};
  for (int id = 0; id < 5; ++id) {
    RequestSpec spec = SpecOf(id, 10, 1, 1000 * id);
    spec.priority = priorities[id];
    ASSERT_TRUE(driver.Submit(spec).ok());
  }
  for (const int id : {3, 1, 4, 0, 2}) {
    driver.Step();
    EXPECT_TRUE(driver.Entry(id).has_value()) << id;
  }
}

TEST(Admission, ALowPriorityIsNotStarvedByASteadyHighOne) {
  SchedulerOptions options = SmallOptions();
  options.max_running = 1;
  options.max_queued_requests = 3;  // one step of priority is worth twelve arrivals
  StepDriver driver(options);
  RequestSpec low = SpecOf(0, 10, 1);
  low.priority = 1;
  ASSERT_TRUE(driver.Submit(low).ok());
  int steps = 0;
  for (; driver.finished().count(0) == 0 && steps < 100; ++steps) {
    ASSERT_TRUE(driver.Submit(SpecOf(1 + steps, 10, 1, 1000)).ok());
    driver.Step();
  }
  EXPECT_GT(steps, 5);
  EXPECT_LE(steps, 14);
}

TEST(Admission, FollowersWaitForTheirLeadersPromptThenShareIt) {
  StepDriver driver(SmallOptions());
  std::vector<RequestSpec> group;
  for (int id = 1; id <= 3; ++id) {
    group.push_back(SpecOf(id, 200, 5));
    if (id > 1) group.back().prefix_leader = RequestId{1};
  }
  ASSERT_TRUE(driver.Submit(group).ok());
  ASSERT_TRUE(driver.Submit(SpecOf(4, 8, 5, 9000)).ok());
  driver.Step();                             // 128 + 8 tokens
  EXPECT_TRUE(driver.Entry(4).has_value());  // passes the followers
  EXPECT_FALSE(driver.Entry(2) || driver.Entry(3));
  EXPECT_EQ(driver.scheduler().load().num_waiting, 2);
  driver.Step();
  EXPECT_TRUE(driver.Entry(1)->samples);
  driver.Step();
  for (const int id : {2, 3}) {
    EXPECT_EQ(driver.Entry(id)->context_length, 192) << id;
    EXPECT_EQ(driver.Progress(id).num_prefix_hit_tokens, 192);
  }
  EXPECT_EQ(driver.scheduler().load().blocks_owned, 12 + 3 + 1);
}

TEST(Admission, FollowersStartWhenTheirLeaderHasGone) {
  StepDriver driver(SmallOptions());
  RequestSpec second = SpecOf(2, 300, 5);
  second.prefix_leader = RequestId{1};
  RequestSpec third = SpecOf(3, 30, 5, 1000);
  third.prefix_leader = RequestId{77};  // unknown: has ended long ago
  ASSERT_TRUE(driver.Submit({SpecOf(1, 300, 5), second, third}).ok());
  driver.Step();
  EXPECT_TRUE(driver.Entry(3).has_value());
  EXPECT_FALSE(driver.Entry(2).has_value());
  driver.scheduler().Cancel(RequestId{1});
  driver.Step();
  EXPECT_TRUE(driver.Entry(2).has_value());
}

TEST(Admission, AFollowerThatMayNotShareDoesNotWait) {
  StepDriver driver(SmallOptions());
  RequestSpec second = SpecOf(2, 30, 5);
  second.prefix_leader = RequestId{1};
  second.use_prefix_cache = false;
  ASSERT_TRUE(driver.Submit({SpecOf(1, 30, 5), second}).ok());
  driver.Step();
  EXPECT_EQ(driver.Entry(2)->query_length, 30);
}

TEST(Admission, TellsHowLongARequestWaited) {
  Scheduler scheduler(SmallOptions());
  RequestSpec spec = SpecOf(1, 10, 5);
  ASSERT_TRUE(scheduler.Submit({&spec, 1}, absl::FromUnixMillis(100)).ok());
  EXPECT_EQ(scheduler.Progress(RequestId{1})->state, RequestState::kWaiting);
  EXPECT_EQ(scheduler.Progress(RequestId{1})->queue_time, absl::InfiniteDuration());
  StepPlan plan;
  std::vector<FinishedRequest> finished;
  scheduler.Schedule(absl::FromUnixMillis(130), plan, finished);
  EXPECT_EQ(scheduler.Progress(RequestId{1})->state, RequestState::kRunning);
  EXPECT_EQ(scheduler.Progress(RequestId{1})->queue_time, absl::Milliseconds(30));
  EXPECT_EQ(scheduler.Progress(RequestId{2}), std::nullopt);
}

}  // namespace
}  // namespace thresher::simulation
