// Who runs next and which blocks they hold: continuous batching over a paged cache with a token
// budget, chunked prefill, a prefix cache and, where allowed, preemption. Integers only: never
// blocks, reads a clock, logs, or touches a device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "scheduler/ids.h"
#include "scheduler/prefix_salt.h"
#include "scheduler/step_plan.h"

namespace thresher {

struct RequestSpec {
  RequestId id{};
  std::vector<TokenId> prompt;  // at least one token
  // Tokens to generate at most. Absent: up to max_sequence_length, reserving
  // SchedulerOptions::reserve_tokens, and the request may be preempted.
  std::optional<int> max_new_tokens;
  int priority = 0;                // lower runs first
  int prefill_chunk_multiple = 1;  // chunks end at multiples of it, except the prompt's last
  std::vector<SaltSpan> prefix_salts = {{0, 0, 0}};
  bool use_prefix_cache = true;  // false: computes every prompt token (prompt log-probabilities)
  // Waits until this request's prompt is computed (or it has ended), then shares its blocks: how
  // the choices 1…n−1 of one request follow the first.
  std::optional<RequestId> prefix_leader;
};

enum class Admission {
  kNoEvict,  // a request with max_new_tokens starts only when all its blocks can be promised
  kEager,    // starts when its prompt fits; the newest is preempted when blocks run out
};

struct SchedulerOptions {
  int num_blocks = 0;
  int block_size = 64;          // 16, 32, 64 or 128
  int max_sequence_length = 0;  // prompt and output together
  int max_running = 256;
  int token_budget = 512;     // query tokens of one step; over max_running by 128 at least
  int max_prefill_chunk = 0;  // 0: the budget
  int max_queued_requests = 1024;
  std::int64_t max_queued_prompt_tokens = 1 << 20;
  int reserve_tokens = 512;
  int max_lookahead = 8;    // waiting requests tried past a head that does not fit
  int max_head_skips = 64;  // times a head is passed before nothing passes it any more
  Admission admission = Admission::kNoEvict;
  bool prefix_cache = true;
  // InvalidArgument naming the field and the limit.
  absl::Status Validate() const;
};

enum class RequestState { kWaiting, kRunning, kPreempted };
enum class FinishCause { kEndToken, kLength, kCancelled };

struct FinishedRequest {
  RequestId id{};
  FinishCause cause{};
  int num_generated = 0;  // tokens of committed plans, before a cancel
};

struct SchedulerLoad {
  int num_waiting = 0;  // preempted ones included
  int num_running = 0;
  std::int64_t queued_prompt_tokens = 0;
  int blocks_free = 0;    // never used or evicted
  int blocks_cached = 0;  // held by the prefix cache alone; may be evicted
  int blocks_owned = 0;
  std::int64_t num_preemptions = 0;
  std::int64_t prefix_queried_tokens = 0;
  std::int64_t prefix_hit_tokens = 0;
};

// What is known of a live request, for the engine's own records.
struct RequestProgress {
  RequestState state{};
  int num_prefix_hit_tokens = 0;  // of its first admission
  int num_computed_tokens = 0;
  int num_preemptions = 0;
  // From Submit to the first Schedule that ran it; infinite before.
  absl::Duration queue_time = absl::InfiniteDuration();
};

// Single-threaded. At most two plans are in flight: Schedule may run once before the previous plan
// commits. A block is freed after the last plan that names it has committed.
class Scheduler final {
 public:
  // `options` must validate.
  explicit Scheduler(const SchedulerOptions& options);
  ~Scheduler();

  // Queues all or none of the specs (one request's choices). ResourceExhausted: queue full.
  // InvalidArgument: one can never fit, with what it needs and what there is; or an id is in use.
  absl::Status Submit(std::span<RequestSpec> specs, absl::Time now);
  // No effect on an unknown or finished id. The request enters no further plan. It is in the
  // `finished` of the next Commit, or of the next Schedule if no plan in flight names it; until
  // then its id is in use.
  void Cancel(RequestId id);
  // Fills the plan; it is empty if nothing can run now, and then not committed. Requests that were
  // cancelled while in no plan are appended to `finished`.
  void Schedule(absl::Time now, StepPlan& plan, std::vector<FinishedRequest>& finished);
  // Plans commit in the order they were scheduled. A sample that belongs to a request which ended
  // with the plan before is ignored.
  void Commit(StepId step, const StepResult& result, std::vector<FinishedRequest>& finished);

  bool idle() const;  // nothing waiting, running or in flight
  SchedulerLoad load() const;
  std::optional<RequestProgress> Progress(RequestId id) const;
  // Every block is free, owned or cached, exactly once; counts, budgets and queues agree.
  absl::Status CheckInvariants() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace thresher
