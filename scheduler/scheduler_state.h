// The parts of the scheduler and how one step goes through them. Each group of members is in the
// file named above it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "scheduler/prefill_chunk.h"
#include "scheduler/queue_order.h"
#include "scheduler/request_table.h"
#include "scheduler/scheduler.h"
#include "scheduler/sequence_blocks.h"
#include "scheduler/sequence_table.h"

namespace thresher {

// At most this many prompts are computed over several steps at a time; others start when they can
// be finished at once. It keeps part of the budget, and of the blocks, for short prompts.
inline constexpr int kMaxPartialPrefills = 2;
// One step of priority against this many arrivals for each request that may wait, see QueueOrder.
inline constexpr int kArrivalsPerPriorityAndWaiting = 4;

struct Scheduler::State {
  explicit State(const SchedulerOptions& scheduler_options);

  // --- submission.cc ---
  absl::Status CheckSpec(const RequestSpec& spec) const;
  absl::Status CheckRoom(std::span<const RequestSpec> specs) const;
  void Enqueue(RequestSpec& spec, absl::Time now);
  int NumWaiting() const { return queue.size() + num_following + num_preempting; }
  // Releases the requests that wait for this one's prompt.
  void FreeFollowers(int request_index);
  void StopFollowing(int request_index);
  void CancelRequest(int request_index);
  void ReportCancelled(bool in_plan, std::vector<FinishedRequest>& finished);

  // --- schedule_step.cc ---
  struct PlannedChunk {
    int row = 0;
    int end = 0;
  };
  void Schedule(absl::Time now, StepPlan& plan);
  void ScheduleDecodes(StepPlan& plan);
  void PlanChunks(int budget, bool others_wait);
  void ExtendChunks();
  void EmitChunks(StepPlan& plan);
  void Emit(int row, int query_length, bool prefill, StepPlan& plan);
  PrefillExtent ExtentOf(int row) const;

  // --- admission.cc ---
  void Admit(absl::Time now);
  // False: it does not fit into this step or into the free blocks.
  bool TryAdmit(int request_index, bool others_wait, absl::Time now);
  BlockPromise PromiseFor(const Request& request) const;
  // By priority, then arrival: who keeps its blocks longer.
  bool RanksBefore(int first_request, int second_request) const;

  // --- preemption.cc ---
  enum class Growth { kTaken, kStalled, kPreempted };
  // One more block for the decoding sequence at this position of `running`.
  Growth GrowDecode(int position);
  void PreemptAt(int position);
  void Requeue(int row);

  // --- commit_step.cc ---
  struct InFlightSequence {
    int row = 0;
    int query_length = 0;
    bool samples = false;
    bool prefill = false;
  };
  struct InFlightPlan {
    StepId step{};
    std::vector<InFlightSequence> sequences;  // [max_running] reserved
    int num_samples = 0;
  };
  void Commit(StepId step, const StepResult& result, std::vector<FinishedRequest>& finished);
  void CommitSequence(const InFlightSequence& entry, const StepResult::Sample* sample,
                      std::vector<FinishedRequest>& finished);
  int NumGenerated(const Request& request) const;
  // Takes a sequence out of the running ones; its blocks follow when no plan names it.
  void EndSequence(int row);
  void FreeSequence(int row);

  // --- invariants.cc ---
  absl::Status CheckInvariants() const;
  absl::Status CheckRequests() const;
  absl::Status CheckSequences() const;

  const SchedulerOptions options;
  const int max_prefill_chunk;
  RequestTable requests;
  SequenceTable sequences;
  SequenceBlocks blocks;
  QueueOrder queue;
  std::vector<int> running;   // rows, by priority and arrival
  std::vector<int> prefills;  // rows with more than a sampled token to compute, by admission
  int num_following = 0;
  int num_preempting = 0;
  std::int64_t queued_prompt_tokens = 0;  // of all waiting requests
  std::int64_t next_arrival = 0;
  struct CancelledRequest {
    FinishedRequest report;
    bool in_plan = false;
  };
  std::vector<CancelledRequest> cancelled;  // not reported yet

  std::array<InFlightPlan, 2> plans;  // the older first
  int num_plans = 0;
  std::int64_t next_step = 0;

  // Of the step being planned.
  std::vector<PlannedChunk> chunks;
  int chunk_budget = 0;          // tokens left for prefill
  int num_partial = 0;           // chunks that do not finish what their sequence has to compute
  int claimed_room = 0;          // blocks to come that stalled sequences wait for
  bool short_of_blocks = false;  // a sequence was preempted or stalled: nobody is admitted

  std::int64_t num_preemptions = 0;
  std::int64_t prefix_queried_tokens = 0;
  std::int64_t prefix_hit_tokens = 0;
};

}  // namespace thresher
