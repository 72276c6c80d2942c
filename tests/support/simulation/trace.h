// What clients do over the steps of a simulation: seeded, so that a failure can be run again.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/scheduler.h"
#include "tests/support/simulation/random.h"

namespace thresher::simulation {

struct TraceOptions {
  std::uint64_t seed = 0;
  int burst_percent = 10;  // chance of a burst in a step
  int max_burst = 4;       // requests of a burst
  int min_prompt = 1;
  int max_prompt = 200;
  int max_output = 60;      // until an end token, or max_new_tokens
  int limit_percent = 70;   // requests that state max_new_tokens
  int share_percent = 60;   // prompts that start with one of the shared prefixes
  int salted_percent = 30;  // requests under a sparse policy
  int group_percent = 15;   // bursts that are the choices of one request, behind a leader
  int num_priorities = 3;
  int cancel_percent = 5;    // chance of a cancel in a step
  int oversize_percent = 2;  // requests that may not fit the pool or the sequence length
  int bypass_percent = 5;    // requests that compute every prompt token
};

struct TracedRequest {
  RequestSpec spec;
  int end_after = 0;  // the generated token with this number ends the request
};

class Trace final {
 public:
  Trace(const TraceOptions& options, const SchedulerOptions& scheduler);

  // The requests submitted together before the next step; mostly none.
  std::vector<TracedRequest> NextBurst();
  // Whether some request is cancelled now; `Pick` says which of `count`.
  bool Cancels() { return random_.Percent(options_.cancel_percent); }
  int Pick(int count) { return random_.Between(0, count - 1); }

 private:
  TracedRequest NextRequest();
  std::vector<TokenId> NextPrompt();
  std::vector<SaltSpan> NextSalts(int prompt_length);

  TraceOptions options_;
  SchedulerOptions scheduler_;
  Random random_;
  std::int64_t next_id_ = 0;
  std::vector<std::vector<TokenId>> shared_prefixes_;
};

}  // namespace thresher::simulation
