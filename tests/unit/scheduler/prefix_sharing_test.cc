// What requests share through the prefix cache, and what they must not.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/simulation/step_driver.h"

namespace thresher::simulation {
namespace {

// Runs a request alone and returns how many of its prompt tokens it did not compute.
int HitOf(StepDriver& driver, RequestSpec spec) {
  const int id = static_cast<int>(spec.id);
  EXPECT_TRUE(driver.Submit(std::move(spec)).ok());
  driver.Step();
  const int hit = driver.Progress(id).num_prefix_hit_tokens;
  EXPECT_EQ(driver.Entry(id)->context_length, hit);
  driver.Drain();
  return hit;
}

TEST(PrefixSharing, AFullHitStillComputesTheLastToken) {
  const struct {
    int length;
    int hit;
  } cases[] = {{15, 0}, {16, 0}, {17, 16}, {32, 16}, {33, 32}};
  for (const auto& c : cases) {
    StepDriver driver(SmallOptions());
    EXPECT_EQ(HitOf(driver, SpecOf(1, c.length, 2)), 0);
    EXPECT_EQ(HitOf(driver, SpecOf(2, c.length, 2)), c.hit) << c.length;
  }
}

TEST(PrefixSharing, AnExtensionHitsTheWholeBlocksOfTheShorter) {
  StepDriver driver(SmallOptions());
  EXPECT_EQ(HitOf(driver, SpecOf(1, 40, 2)), 0);
  EXPECT_EQ(HitOf(driver, SpecOf(2, 100, 2)), 32);
  EXPECT_EQ(HitOf(driver, SpecOf(3, 50, 2)), 48);
}

TEST(PrefixSharing, TheNextTurnHitsWhatWasGenerated) {
  StepDriver driver(SmallOptions());
  RequestSpec turn = SpecOf(1, 20, 30);
  EXPECT_EQ(HitOf(driver, turn), 0);
  turn.id = RequestId{2};
  for (int i = 0; i < 30; ++i) turn.prompt.push_back(100 + i);  // the driver's samples
  turn.prompt.insert(turn.prompt.end(), 20, 7);
  EXPECT_EQ(HitOf(driver, turn), 48);  // 49 rows were computed
}

TEST(PrefixSharing, NothingIsSharedBeforeItsCommit) {
  StepDriver driver(SmallOptions());
  ASSERT_TRUE(driver.Submit(SpecOf(1, 60, 5)).ok());
  driver.Schedule();
  ASSERT_TRUE(driver.Submit(SpecOf(2, 60, 5)).ok());
  driver.Schedule();
  EXPECT_EQ(driver.Entry(2)->context_length, 0);
  driver.Commit();
  driver.Commit();
  EXPECT_EQ(driver.scheduler().load().blocks_owned, 8);
  driver.Drain();
  EXPECT_EQ(driver.scheduler().load().blocks_cached, 4);  // equal blocks are kept once; one more
}

TEST(PrefixSharing, AHitEndsWhereAChunkMayEnd) {
  StepDriver driver(SmallOptions());
  EXPECT_EQ(HitOf(driver, SpecOf(1, 200, 2)), 0);
  RequestSpec spec = SpecOf(2, 200, 2);
  spec.prefill_chunk_multiple = 128;
  EXPECT_EQ(HitOf(driver, spec), 128);
}

TEST(PrefixSharing, ComputesEveryPromptTokenWhereAsked) {
  StepDriver driver(SmallOptions());
  EXPECT_EQ(HitOf(driver, SpecOf(1, 117, 2)), 0);
  RequestSpec spec = SpecOf(2, 117, 2);
  spec.use_prefix_cache = false;
  EXPECT_EQ(HitOf(driver, spec), 0);
  EXPECT_EQ(HitOf(driver, SpecOf(3, 130, 2)), 112);
  EXPECT_EQ(driver.scheduler().load().prefix_queried_tokens, 117 + 130);
  EXPECT_EQ(driver.scheduler().load().prefix_hit_tokens, 112);
}

TEST(PrefixSharing, PoliciesShareOnlyWhatTheyWouldHaveComputed) {
  StepDriver driver(SmallOptions());
  const auto with = [](int id, std::vector<SaltSpan> salts) {
    RequestSpec spec = SpecOf(id, 65, 2);  // four blocks
    spec.prefix_salts = std::move(salts);
    return spec;
  };
  const std::vector<SaltSpan> s1 = {{0, 0, 0}, {32, 1, 1}};  // dense below 32
  const std::vector<SaltSpan> s2 = {{0, 0, 0}, {32, 2, 2}};
  EXPECT_EQ(HitOf(driver, with(1, {{0, 0, 0}})), 0);
  EXPECT_EQ(HitOf(driver, with(2, s1)), 32);
  EXPECT_EQ(HitOf(driver, with(3, s2)), 32);
  EXPECT_EQ(HitOf(driver, with(4, s1)), 64);
  EXPECT_EQ(HitOf(driver, with(5, {{0, 0, 0}})), 64);
}

TEST(PrefixSharing, ADenseTurnNeverHitsRowsThatSparseDecodingWrote) {
  StepDriver driver(SmallOptions());
  const std::uint64_t top_theta = 9;
  RequestSpec first = SpecOf(1, 24, 40);
  first.prefix_salts = {{0, 0, top_theta}, {24, top_theta, 0}};
  EXPECT_EQ(HitOf(driver, first), 0);
  RequestSpec next = SpecOf(2, 24, 2);
  for (int i = 0; i < 40; ++i) next.prompt.push_back(100 + i);
  next.prompt.push_back(7);
  RequestSpec dense = next;
  dense.id = RequestId{3};
  next.prefix_salts = {{0, 0, top_theta}, {static_cast<int>(next.prompt.size()), top_theta, 0}};
  // The block of rows 16 to 31 holds rows past the prompt: it counts as decoded.
  EXPECT_EQ(HitOf(driver, next), 48);
  EXPECT_EQ(HitOf(driver, dense), 16);
}

TEST(PrefixSharing, WhatIsEvictedOfARequestIsItsTail) {
  SchedulerOptions options = SmallOptions();
  options.num_blocks = 20;
  StepDriver driver(options);
  EXPECT_EQ(HitOf(driver, SpecOf(1, 161, 2)), 0);        // ten blocks stay cached
  EXPECT_EQ(HitOf(driver, SpecOf(2, 210, 2, 5000)), 0);  // takes all ten others, and four of them
  EXPECT_EQ(HitOf(driver, SpecOf(3, 161, 2)), 96);
}

TEST(PrefixSharing, IdleLeavesEveryBlockFreeOrCached) {
  StepDriver driver(SmallOptions());
  for (int id = 0; id < 20; ++id) {
    ASSERT_TRUE(driver.Submit(SpecOf(id, 30 + 13 * id, 1 + id, 100 * (id % 3))).ok());
  }
  driver.Drain();
  const SchedulerLoad load = driver.scheduler().load();
  EXPECT_EQ(load.blocks_owned, 0);
  EXPECT_EQ(load.blocks_free + load.blocks_cached, 100);
  EXPECT_EQ(driver.finished().size(), 20u);
}

}  // namespace
}  // namespace thresher::simulation
