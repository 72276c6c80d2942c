// Drives a scheduler by hand, one call at a time, for tests that look at single steps.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "scheduler/scheduler.h"

namespace thresher::simulation {

// A valid configuration that tests change: blocks of 16, 8 sequences, 136 tokens a step.
SchedulerOptions SmallOptions();

// A prompt of `length` tokens that starts with `first` and shares no block with another `first`.
RequestSpec SpecOf(int id, int length, std::optional<int> max_new_tokens, TokenId first = 0);

class StepDriver final {
 public:
  explicit StepDriver(const SchedulerOptions& options) : scheduler_(options) {}

  Scheduler& scheduler() { return scheduler_; }
  absl::Status Submit(RequestSpec spec) { return scheduler_.Submit({&spec, 1}, absl::UnixEpoch()); }
  absl::Status Submit(std::vector<RequestSpec> specs) {
    return scheduler_.Submit(specs, absl::UnixEpoch());
  }

  // The plan of the next step, until the call after the next.
  const StepPlan& Schedule();
  // Commits the oldest plan. Every sequence that samples gets token 100 + its count so far; those
  // in `ending` get an end token.
  void Commit(const std::vector<int>& ending = {});
  // Schedule and Commit.
  const StepPlan& Step(const std::vector<int>& ending = {});
  // Steps until idle; the number of steps, at most `limit`.
  int Drain(int limit = 10000);

  // The entry of a request in the last plan, or none.
  std::optional<ScheduledSequence> Entry(int id) const;
  // Everything that has finished so far, by id.
  const std::map<int, FinishedRequest>& finished() const { return finished_; }
  RequestProgress Progress(int id) const { return scheduler_.Progress(RequestId{id}).value(); }

 private:
  void TakeFinished();

  Scheduler scheduler_;
  StepPlan plans_[2];
  int num_scheduled_ = 0;
  int num_committed_ = 0;
  std::map<RequestId, int> num_samples_;
  std::vector<FinishedRequest> reports_;
  std::map<int, FinishedRequest> finished_;
};

}  // namespace thresher::simulation
