#include "tests/support/simulation/step_driver.h"

#include <algorithm>
#include <numeric>

#include "scheduler/broken_invariant.h"

namespace thresher::simulation {

SchedulerOptions SmallOptions() {
  SchedulerOptions options;
  options.num_blocks = 100;
  options.block_size = 16;
  options.max_sequence_length = 1000;
  options.max_running = 8;
  options.token_budget = 136;
  options.max_queued_requests = 20;
  options.reserve_tokens = 32;
  return options;
}

RequestSpec SpecOf(int id, int length, std::optional<int> max_new_tokens, TokenId first) {
  RequestSpec spec;
  spec.id = RequestId{id};
  spec.prompt.resize(length);
  std::iota(spec.prompt.begin(), spec.prompt.end(), first);
  spec.max_new_tokens = max_new_tokens;
  return spec;
}

const StepPlan& StepDriver::Schedule() {
  StepPlan& plan = plans_[num_scheduled_ % 2];
  scheduler_.Schedule(absl::UnixEpoch(), plan, reports_);
  TakeFinished();
  if (!plan.empty()) ++num_scheduled_;
  const absl::Status status = scheduler_.CheckInvariants();
  RequireInvariant(status.ok(), "after Schedule", num_scheduled_, num_committed_);
  return plan;
}

void StepDriver::Commit(const std::vector<int>& ending) {
  RequireInvariant(num_committed_ < num_scheduled_, "a test commits what it has scheduled",
                   num_committed_, num_scheduled_);
  const StepPlan& plan = plans_[num_committed_++ % 2];
  std::vector<StepResult::Sample> samples;
  for (const ScheduledSequence& sequence : plan.sequences) {
    if (!sequence.samples) continue;
    samples.push_back({100 + num_samples_[sequence.id]++,
                       std::ranges::count(ending, static_cast<int>(sequence.id)) > 0});
  }
  scheduler_.Commit(plan.step, {samples}, reports_);
  TakeFinished();
  const absl::Status status = scheduler_.CheckInvariants();
  RequireInvariant(status.ok(), "after Commit", num_scheduled_, num_committed_);
}

const StepPlan& StepDriver::Step(const std::vector<int>& ending) {
  const StepPlan& plan = Schedule();
  if (!plan.empty()) Commit(ending);
  return plan;
}

int StepDriver::Drain(int limit) {
  int steps = 0;
  while (num_committed_ < num_scheduled_) Commit();
  while (!scheduler_.idle() && steps < limit) {
    Step();
    ++steps;
  }
  return steps;
}

std::optional<ScheduledSequence> StepDriver::Entry(int id) const {
  if (num_scheduled_ == 0) return std::nullopt;
  for (const ScheduledSequence& sequence : plans_[(num_scheduled_ - 1) % 2].sequences) {
    if (sequence.id == RequestId{id}) return sequence;
  }
  return std::nullopt;
}

void StepDriver::TakeFinished() {
  for (const FinishedRequest& report : reports_) {
    const bool added = finished_.emplace(static_cast<int>(report.id), report).second;
    RequireInvariant(added, "a request finishes once", static_cast<std::int64_t>(report.id), 0);
  }
  reports_.clear();
}

}  // namespace thresher::simulation
