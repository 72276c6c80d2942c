#include "engine/bench/scheduler_bench.h"

#include <gtest/gtest.h>

namespace thresher {
namespace {

SchedulerBenchOptions Small() {
  SchedulerBenchOptions options;
  options.num_running = 16;
  options.mean_output = 30;
  options.mean_prompt = 100;
  options.num_blocks = 200;
  options.block_size = 16;
  options.warmup_steps = 100;
  options.num_steps = 400;
  options.check_every = 50;
  return options;
}

TEST(SchedulerBench, MeasuresTheLoadThatItStates) {
  for (const bool two_in_flight : {false, true}) {
    SchedulerBenchOptions options = Small();
    options.two_in_flight = two_in_flight;
    const auto figures = RunSchedulerBench(options);
    ASSERT_TRUE(figures.ok()) << figures.status();
    EXPECT_EQ(figures->num_steps, 400);
    EXPECT_EQ(figures->num_checks, 10);
    EXPECT_GT(figures->steps_per_second, 0);
    EXPECT_GT(figures->sequences_per_step, 8);
    EXPECT_GT(figures->finished_per_step, 0.2);
    EXPECT_GT(figures->chunk_steps_percent, 20);
    EXPECT_GT(figures->prefix_hit_percent, 1);
  }
}

TEST(SchedulerBench, RefusesOptionsThatMakeNoScheduler) {
  SchedulerBenchOptions options = Small();
  options.mean_output = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(RunSchedulerBench(options).status()));
  options = Small();
  options.block_size = 17;
  EXPECT_TRUE(absl::IsInvalidArgument(RunSchedulerBench(options).status()));
}

}  // namespace
}  // namespace thresher
