// Takes in what a step has computed: tokens, full blocks, and the requests that end.
#include <algorithm>
#include <utility>

#include "scheduler/broken_invariant.h"
#include "scheduler/scheduler_state.h"

namespace thresher {

void Scheduler::State::Commit(StepId step, const StepResult& result,
                              std::vector<FinishedRequest>& finished) {
  RequireInvariant(num_plans > 0 && plans[0].step == step, "plans commit in order",
                   static_cast<std::int64_t>(step), num_plans);
  InFlightPlan& plan = plans[0];
  RequireInvariant(static_cast<int>(result.samples.size()) == plan.num_samples,
                   "a result has one sample for each sequence that samples",
                   static_cast<std::int64_t>(result.samples.size()), plan.num_samples);
  const std::size_t num_finished = finished.size();
  const StepResult::Sample* sample = result.samples.data();
  for (const InFlightSequence& entry : plan.sequences) {
    CommitSequence(entry, entry.samples ? sample++ : nullptr, finished);
  }
  if (finished.size() > num_finished) {
    std::erase_if(running,
                  [&](int row) { return sequences[row].stage != SequenceStage::kRunning; });
  }
  ReportCancelled(/*in_plan=*/true, finished);
  std::swap(plans[0], plans[1]);
  --num_plans;
}

void Scheduler::State::CommitSequence(const InFlightSequence& entry,
                                      const StepResult::Sample* sample,
                                      std::vector<FinishedRequest>& finished) {
  const int row = entry.row;
  Sequence& sequence = sequences[row];
  --sequence.num_plans;
  if (sequence.stage == SequenceStage::kEnded) {
    if (sequence.num_plans == 0) FreeSequence(row);
    return;
  }
  // A decode's input is the token sampled last: the plan before has committed.
  if (!entry.prefill) blocks.WriteToken(row, sequence.last_token);
  sequence.committed_length += entry.query_length;
  if (blocks.HasUnregistered(row)) blocks.RegisterFull(row, requests[sequence.request]);
  if (entry.prefill) {
    Request& request = requests[sequence.request];
    if (!request.prompt_computed && sequence.committed_length >= sequence.prompt_length) {
      request.prompt_computed = true;
      FreeFollowers(sequence.request);
    }
  }
  if (sample != nullptr) {
    --sequence.num_pending_samples;
    sequence.last_token = sample->token;
    const int num_tokens = sequence.num_tokens - sequence.num_pending_samples;
    if (sample->ends || num_tokens == sequence.max_tokens) {
      finished.push_back({sequence.id, sample->ends ? FinishCause::kEndToken : FinishCause::kLength,
                          num_tokens - sequence.prompt_length});
      Request& request = requests[sequence.request];
      if (request.stage == RequestStage::kPreempting) {
        --num_preempting;
        queued_prompt_tokens -= request.prompt_length;
      }
      requests.Remove(sequence.request);
      EndSequence(row);
      return;
    }
  }
  if (sequence.stage == SequenceStage::kPreempting && sequence.num_plans == 0) Requeue(row);
}

int Scheduler::State::NumGenerated(const Request& request) const {
  if (request.sequence == kNone) {
    return static_cast<int>(request.known.size()) - request.prompt_length;
  }
  const Sequence& sequence = sequences[request.sequence];
  return sequence.num_tokens - sequence.num_pending_samples - sequence.prompt_length;
}

void Scheduler::State::EndSequence(int row) {
  Sequence& sequence = sequences[row];
  if (sequence.stage == SequenceStage::kRunning) blocks.StopGrowing(row);
  sequence.stage = SequenceStage::kEnded;
  sequence.request = kNone;
  if (sequence.num_plans == 0) FreeSequence(row);
}

void Scheduler::State::FreeSequence(int row) {
  blocks.Release(row);
  sequences.Remove(row);
}

}  // namespace thresher
