// What enters the queue, what is refused, and how a cancel leaves from every state.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/support/simulation/step_driver.h"

namespace thresher::simulation {
namespace {

bool Says(const absl::Status& status, std::initializer_list<std::string> parts) {
  for (const std::string& part : parts) {
    if (std::string(status.message()).find(part) == std::string::npos) return false;
  }
  return true;
}

TEST(Submission, RefusesAPromptLargerThanThePoolAtOnceAndServesTheNext) {
  SchedulerOptions options = SmallOptions();
  options.num_blocks = 10;
  StepDriver driver(options);
  const absl::Status status = driver.Submit(SpecOf(1, 161, std::nullopt));
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_TRUE(Says(status, {"161", "11 blocks", "10"})) << status;
  EXPECT_TRUE(driver.scheduler().idle());
  EXPECT_TRUE(driver.Submit(SpecOf(2, 160, std::nullopt)).ok());
  driver.Drain();
  EXPECT_EQ(driver.finished().at(2).cause, FinishCause::kLength);
  EXPECT_EQ(driver.finished().at(2).num_generated, 1);  // the pool ends it
}

TEST(Submission, CountsMaxNewTokensAgainstThePool) {
  SchedulerOptions options = SmallOptions();
  options.num_blocks = 10;
  StepDriver driver(options);
  // The last token is never computed: 100 + 61 - 1 rows fill the ten blocks.
  EXPECT_TRUE(driver.Submit(SpecOf(1, 100, 61)).ok());
  const absl::Status status = driver.Submit(SpecOf(2, 100, 62));
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_TRUE(Says(status, {"100", "62", "11 blocks", "has 10"})) << status;
  driver.Drain();
  EXPECT_EQ(driver.finished().at(1).num_generated, 61);
}

TEST(Submission, RefusesBadSpecsByField) {
  StepDriver driver(SmallOptions());
  const auto refuses = [&](RequestSpec spec, const std::string& part) {
    const absl::Status status = driver.Submit(std::move(spec));
    return absl::IsInvalidArgument(status) && Says(status, {part});
  };
  EXPECT_TRUE(refuses(SpecOf(1, 0, 5), "no token"));
  EXPECT_TRUE(refuses(SpecOf(1, 1000, 5), "999"));
  EXPECT_TRUE(refuses(SpecOf(1, 10, 0), "max_new_tokens is 0"));
  RequestSpec spec = SpecOf(1, 10, 5);
  spec.prefill_chunk_multiple = 129;  // 136 - 8 tokens are left at worst
  EXPECT_TRUE(refuses(spec, "prefill_chunk_multiple is 129"));
  spec = SpecOf(1, 10, 5);
  spec.prefix_salts = {{3, 0, 0}};
  EXPECT_TRUE(refuses(spec, "prefix_salts[0]"));
  spec = SpecOf(1, 10, 5);
  spec.prefix_leader = RequestId{1};
  EXPECT_TRUE(refuses(spec, "prefix_leader"));
  EXPECT_TRUE(driver.Submit(SpecOf(1, 10, 5)).ok());
  EXPECT_TRUE(refuses(SpecOf(1, 10, 5), "in use"));
  EXPECT_EQ(driver.scheduler().load().num_waiting, 1);
}

TEST(Submission, TakesAllOrNoneOfAGroup) {
  StepDriver driver(SmallOptions());
  EXPECT_FALSE(driver.Submit({SpecOf(1, 10, 5), SpecOf(2, 0, 5)}).ok());
  EXPECT_FALSE(driver.Submit({SpecOf(1, 10, 5), SpecOf(1, 10, 5)}).ok());
  EXPECT_TRUE(driver.scheduler().idle());
  EXPECT_TRUE(driver.Submit({SpecOf(1, 10, 5), SpecOf(2, 10, 5)}).ok());
}

TEST(Submission, LimitsRequestsAndPromptTokensThatWait) {
  SchedulerOptions options = SmallOptions();
  options.max_queued_requests = 2;
  options.max_queued_prompt_tokens = 100;
  StepDriver driver(options);
  EXPECT_TRUE(driver.Submit(SpecOf(1, 300, 5)).ok());  // an empty queue takes what can run
  absl::Status status = driver.Submit(SpecOf(2, 1, 5));
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_TRUE(Says(status, {"300", "100"})) << status;
  driver.Step();  // 1 runs
  EXPECT_TRUE(driver.Submit({SpecOf(2, 10, 5), SpecOf(3, 10, 5)}).ok());
  status = driver.Submit(SpecOf(4, 10, 5));
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_TRUE(Says(status, {"2 requests"})) << status;
  EXPECT_TRUE(absl::IsInvalidArgument(
      driver.Submit({SpecOf(5, 1, 1), SpecOf(6, 1, 1), SpecOf(7, 1, 1)})));  // never
}

TEST(Submission, CancelsFromEveryState) {
  SchedulerOptions options = SmallOptions();
  options.max_running = 2;
  options.token_budget = 130;
  StepDriver driver(options);
  RequestSpec follower = SpecOf(5, 300, 5);
  follower.prefix_leader = RequestId{2};
  ASSERT_TRUE(driver.Submit(SpecOf(1, 10, 50, 5000)).ok());
  ASSERT_TRUE(driver.Submit(SpecOf(2, 300, 5)).ok());
  ASSERT_TRUE(driver.Submit(SpecOf(3, 10, 5, 6000)).ok());
  ASSERT_TRUE(driver.Submit(SpecOf(4, 10, 5, 7000)).ok());
  ASSERT_TRUE(driver.Submit(follower).ok());
  Scheduler& scheduler = driver.scheduler();
  scheduler.Cancel(RequestId{3});  // queued
  scheduler.Cancel(RequestId{3});  // again: no effect
  scheduler.Cancel(RequestId{99});
  EXPECT_EQ(scheduler.load().num_waiting, 4);
  EXPECT_TRUE(driver.finished().empty());
  driver.Schedule();
  EXPECT_EQ(driver.finished().at(3).cause, FinishCause::kCancelled);
  scheduler.Cancel(RequestId{5});  // follows
  scheduler.Cancel(RequestId{2});  // in the middle of its prompt, in flight
  EXPECT_EQ(driver.finished().count(2), 0u);
  driver.Commit();
  EXPECT_EQ(driver.finished().count(2), 1u);
  EXPECT_EQ(driver.finished().count(5), 0u);
  driver.Schedule();
  EXPECT_EQ(driver.finished().count(5), 1u);
  EXPECT_TRUE(driver.Entry(4).has_value());
  driver.Schedule();  // 1 and 4 are in both plans
  scheduler.Cancel(RequestId{1});
  driver.Commit();
  EXPECT_EQ(driver.finished().at(1).num_generated, 1);
  EXPECT_GT(scheduler.load().blocks_owned, 1);  // the second plan still names its block
  driver.Commit();
  driver.Drain();
  EXPECT_EQ(driver.finished().size(), 5u);
  EXPECT_EQ(driver.finished().at(4).cause, FinishCause::kLength);
  EXPECT_EQ(scheduler.load().blocks_owned, 0);
}

TEST(Submission, ACancelledIdIsInUseUntilItIsReported) {
  StepDriver driver(SmallOptions());
  ASSERT_TRUE(driver.Submit(SpecOf(1, 10, 5)).ok());
  driver.scheduler().Cancel(RequestId{1});
  EXPECT_FALSE(driver.scheduler().idle());
  EXPECT_FALSE(driver.Submit(SpecOf(1, 10, 5)).ok());
  EXPECT_TRUE(driver.Schedule().empty());
  EXPECT_TRUE(driver.scheduler().idle());
  EXPECT_EQ(driver.finished().at(1).num_generated, 0);
}

}  // namespace
}  // namespace thresher::simulation
