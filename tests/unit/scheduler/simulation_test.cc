// Seeded traces through the whole scheduler. The step counts are divided under sanitizers.
#include <gtest/gtest.h>

#include <set>

#include "tests/support/simulation/scheduler_simulation.h"

namespace thresher::simulation {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kShare = 10;
#else
constexpr int kShare = 1;
#endif

// A different kind of machine and load for every seed.
SimulationOptions OptionsOf(std::uint64_t seed) {
  Random random(seed);
  SimulationOptions options;
  SchedulerOptions& scheduler = options.scheduler;
  scheduler.block_size = 16;
  scheduler.num_blocks = random.Between(6, 60);
  scheduler.max_sequence_length = random.Between(40, 400);
  scheduler.max_running = random.Between(1, 10);
  scheduler.token_budget = scheduler.max_running + 128 + random.Between(0, 60);
  constexpr int kChunks[] = {0, 0, 32, 50, 100};
  scheduler.max_prefill_chunk = kChunks[random.Between(0, 4)];
  scheduler.max_queued_requests = random.Between(5, 30);
  scheduler.max_queued_prompt_tokens = random.Between(300, 3000);
  scheduler.reserve_tokens = random.Between(1, 60);
  scheduler.max_lookahead = random.Between(0, 8);
  scheduler.max_head_skips = random.Between(0, 20);
  scheduler.admission = random.Percent(50) ? Admission::kEager : Admission::kNoEvict;
  scheduler.prefix_cache = random.Percent(80);
  TraceOptions& trace = options.trace;
  trace.seed = seed;
  trace.burst_percent = random.Between(2, 30);
  trace.max_burst = random.Between(1, 6);
  trace.max_prompt = random.Between(5, 300);
  trace.max_output = random.Between(1, 80);
  constexpr int kPercents[] = {0, 50, 100};
  trace.limit_percent = kPercents[random.Between(0, 2)];
  trace.cancel_percent = random.Between(0, 10);
  options.plans_in_flight = random.Between(1, 2);
  return options;
}

// Few blocks, short prompts and long outputs: sequences are preempted again and again.
SimulationOptions TightOptionsOf(std::uint64_t seed) {
  SimulationOptions options = OptionsOf(seed);
  Random random(seed + 1);
  SchedulerOptions& scheduler = options.scheduler;
  scheduler.num_blocks = random.Between(6, 20);
  scheduler.max_sequence_length = random.Between(80, 200);
  scheduler.max_running = random.Between(3, 10);
  scheduler.token_budget = scheduler.max_running + 128;
  scheduler.reserve_tokens = random.Between(1, 20);
  if (random.Percent(70)) scheduler.admission = Admission::kEager;
  options.trace.max_prompt = random.Between(10, 60);
  options.trace.max_output = random.Between(40, 120);
  options.trace.burst_percent = random.Between(3, 12);
  options.plans_in_flight = random.Percent(75) ? 2 : 1;
  return options;
}

// Runs `num_seeds` traces of 500 steps and what it takes to drain them; adds up what happened.
template <typename MakeOptions>
SimulationFigures RunAll(std::uint64_t first_seed, int num_seeds, MakeOptions make_options) {
  SimulationFigures total;
  for (int i = 0; i < num_seeds; ++i) {
    SimulationOptions options = make_options(first_seed + static_cast<std::uint64_t>(i));
    options.num_steps = 500;
    SchedulerSimulation simulation(options);
    const absl::Status status = simulation.Run();
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) break;
    const SimulationFigures& figures = simulation.figures();
    total.num_steps += figures.num_steps;
    total.num_finished += figures.num_finished;
    total.num_cancelled += figures.num_cancelled;
    total.num_refused += figures.num_refused;
    total.num_queue_full += figures.num_queue_full;
    total.num_preemptions += figures.num_preemptions;
    total.prefix_hit_tokens += figures.prefix_hit_tokens;
  }
  return total;
}

TEST(SchedulerSimulation, HoldsItsPromisesInEveryTrace) {
  const SimulationFigures total = RunAll(0, 1000 / kShare, OptionsOf);
  // The traces reach what they are meant to reach.
  EXPECT_GE(total.num_steps, 500000 / kShare);
  EXPECT_GT(total.num_finished, 50000 / kShare);
  EXPECT_GT(total.num_cancelled, 10000 / kShare);
  EXPECT_GT(total.num_refused, 10000 / kShare);
  EXPECT_GT(total.num_queue_full, 10000 / kShare);
  EXPECT_GT(total.num_preemptions, 500 / kShare);
  EXPECT_GT(total.prefix_hit_tokens, 500000 / kShare);
}

TEST(SchedulerSimulation, HoldsItsPromisesWhereBlocksAreShort) {
  const SimulationFigures total = RunAll(5000, 500 / kShare, TightOptionsOf);
  EXPECT_GE(total.num_steps, 250000 / kShare);
  EXPECT_GT(total.num_finished, 10000 / kShare);
  EXPECT_GT(total.num_preemptions, 5000 / kShare);
}

// Each preemption raises the room that a request waits for by the reserve, so that it does not come
// back only to be preempted again.
TEST(SchedulerSimulation, AReserveKeepsPreemptedRequestsFromBouncing) {
  const auto preemptions_with = [](int reserve_tokens) {
    return RunAll(9000, 30,
                  [&](std::uint64_t seed) {
                    SimulationOptions options = TightOptionsOf(seed);
                    options.scheduler.admission = Admission::kEager;
                    options.scheduler.reserve_tokens = reserve_tokens;
                    options.trace.cancel_percent = 0;
                    return options;
                  })
        .num_preemptions;
  };
  const std::int64_t bouncing = preemptions_with(1);
  const std::int64_t waiting = preemptions_with(100);
  EXPECT_GT(bouncing, 300);
  EXPECT_LT(waiting, bouncing * 3 / 4);
  RecordProperty("bouncing", static_cast<int>(bouncing));
  RecordProperty("waiting", static_cast<int>(waiting));
}

TEST(SchedulerSimulation, PlansTheSameForTheSameSeed) {
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 1000; seed < 1010; ++seed) {
    SimulationOptions options = OptionsOf(seed);
    options.num_steps = 300;
    SchedulerSimulation first(options);
    SchedulerSimulation second(options);
    ASSERT_TRUE(first.Run().ok());
    ASSERT_TRUE(second.Run().ok());
    EXPECT_EQ(first.figures().plan_hash, second.figures().plan_hash) << "seed " << seed;
    hashes.insert(first.figures().plan_hash);
  }
  EXPECT_GT(hashes.size(), 7u);
}

}  // namespace
}  // namespace thresher::simulation
