// Runs a trace against a scheduler and a pretended device, and checks after every step all that a
// scheduler must hold.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/scheduler.h"
#include "tests/support/simulation/block_store.h"
#include "tests/support/simulation/trace.h"

namespace thresher::simulation {

struct SimulationOptions {
  SchedulerOptions scheduler;
  TraceOptions trace;
  int num_steps = 1000;
  int plans_in_flight = 2;  // 1 or 2
};

struct SimulationFigures {
  std::int64_t num_steps = 0;
  std::int64_t num_finished = 0;
  std::int64_t num_cancelled = 0;
  std::int64_t num_refused = 0;
  std::int64_t num_queue_full = 0;
  std::int64_t num_preemptions = 0;
  std::int64_t prefix_hit_tokens = 0;
  int longest_wait = 0;  // steps from submission to the first plan
  std::uint64_t plan_hash = 0;
};

// The bound on a request's wait for its first plan. While it waits, every step moves at least one
// other sequence: a token of output, or kLeastChunk prompt tokens of the oldest prefill. So it
// waits no longer than the requests that were alive when it came, and those that went before it,
// would take one after another; a preemption repeats a request's work. Those that came later under
// a later key and went before it are max_head_skips at most.
inline constexpr int kLeastChunk = 8;

class SchedulerSimulation final {
 public:
  explicit SchedulerSimulation(const SimulationOptions& options);

  // Runs the steps, then without new requests until idle. Internal: the first thing that is wrong,
  // with the step.
  absl::Status Run();
  const SimulationFigures& figures() const { return figures_; }

 private:
  struct Live {
    RequestSpec spec;  // its prompt is moved to `tokens`
    int end_after = 0;
    int prompt_length = 0;
    int limit = 0;                        // of generated tokens
    std::vector<TokenId> tokens;          // prompt and what the device sampled
    std::vector<std::uint64_t> prefixes;  // as SequenceRows
    int device_length = 0;                // rows computed by launched plans
    int num_committed = 0;                // generated tokens committed
    int num_preemptions = 0;
    std::int64_t waits_since = 0;  // step; of a follower, when its leader was done
    std::int64_t allowed_wait = 0;
    int num_passed = 0;  // by requests that came later with no better priority
    std::optional<RequestId> leader;
    std::int64_t arrival = 0;
    bool prompt_computed = false;
    bool started = false;
    bool cancelled = false;
    bool cancelled_in_plan = false;
  };
  struct Launched {
    StepPlan plan;
    std::vector<StepResult::Sample> samples;
  };

  absl::Status Step();
  absl::Status SubmitBurst();
  absl::Status CheckSubmit(const absl::Status& status, const std::vector<TracedRequest>& burst);
  void CancelSome();
  absl::Status Schedule();
  absl::Status CheckPlan(const StepPlan& plan);
  absl::Status CheckSequence(const ScheduledSequence& sequence, const StepPlan& plan);
  absl::Status Launch(Launched& launched);
  absl::Status CommitOldest();
  absl::Status TakeFinished(bool in_commit);
  absl::Status NoteStart(Live& started);
  absl::Status CheckWaits() const;
  void FreeFollowers();
  void StartWaiting(Live& request);
  bool InPlan(RequestId id) const;
  absl::Status CheckLoad() const;
  void HashPlan(const StepPlan& plan);
  std::int64_t ServiceSteps(const Live& request) const;

  SimulationOptions options_;
  Scheduler scheduler_;
  Trace trace_;
  BlockStore store_;
  WriteGuard guard_;
  std::map<RequestId, Live> live_;
  std::array<Launched, 2> launched_;
  int num_launched_ = 0;
  int oldest_ = 0;  // index in launched_
  std::int64_t step_ = 0;
  std::int64_t next_arrival_ = 0;
  bool draining_ = false;
  int num_empty_ = 0;  // empty plans in a row with nothing in flight
  std::vector<FinishedRequest> finished_;
  SimulationFigures figures_;
};

}  // namespace thresher::simulation
