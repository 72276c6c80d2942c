// How many steps a second the scheduler can plan and commit, with no model behind it.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace thresher {

// Requests arrive as fast as others finish, so that `num_running` run at all times. Half of the
// prompts start with one of `num_shared_prefixes` prefixes of four blocks.
struct SchedulerBenchOptions {
  int num_running = 256;
  int mean_output = 300;        // tokens; lengths are spread evenly from half to one and a half
  int mean_prompt = 560;        // likewise
  int max_prefill_chunk = 192;  // with the prompts above, about one chunk a step
  int num_blocks = 100000;
  int block_size = 64;
  int num_shared_prefixes = 16;
  bool prefix_cache = true;
  bool two_in_flight = true;  // plan step n+1 before step n commits
  int warmup_steps = 2000;
  int num_steps = 20000;
  int check_every = 2000;  // steps between two checks of all invariants
  std::uint64_t seed = 1;
};

struct SchedulerBenchFigures {
  double steps_per_second = 0;      // of Schedule and Commit together
  double steps_per_cpu_second = 0;  // likewise, of the thread's own time on a shared machine
  double schedule_us = 0;           // medians of one call
  double commit_us = 0;
  double submit_us = 0;  // mean of one request; outside steps_per_second
  double sequences_per_step = 0;
  double chunk_steps_percent = 0;  // steps with a prefill chunk
  double finished_per_step = 0;
  double prefix_hit_percent = 0;  // of prompt tokens
  double blocks_cached = 0;       // at the end
  std::int64_t num_steps = 0;
  std::int64_t num_checks = 0;
};

// Runs on the calling thread. InvalidArgument: the options make no valid scheduler. Internal: an
// invariant does not hold.
absl::StatusOr<SchedulerBenchFigures> RunSchedulerBench(const SchedulerBenchOptions& options);

}  // namespace thresher
