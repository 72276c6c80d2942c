#include "engine/engine_loop.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

// How long an idle loop sleeps at most. Commands wake it.
constexpr absl::Duration kIdleWait = absl::Seconds(1);

}  // namespace

EngineLoop::EngineLoop(const EngineLoopOptions& options, ModelRunner& runner, RequestInbox& inbox,
                       std::shared_ptr<ListenerGate> gate, EngineObserver* observer)
    : options_(options),
      runner_(runner),
      inbox_(inbox),
      observer_(observer),
      scheduler_(options.scheduler),
      publisher_(std::move(gate), options.stalled_reader_timeout),
      requests_(options.attention, scheduler_, publisher_, inbox, observer,
                options.batch_invariant),
      last_progress_ns_(absl::ToUnixNanos(options.clock())),
      scheduler_load_(scheduler_.load()),
      thread_([this] { Run(); }) {}

EngineLoop::~EngineLoop() {
  inbox_.Close(absl::UnavailableError("the engine is shutting down"));
  inbox_.CancelAll(absl::UnavailableError("the engine has shut down"));
  inbox_.Stop();
  thread_.join();
}

EngineLoad EngineLoop::load() const {
  const absl::Time now = options_.clock();
  const std::lock_guard<std::mutex> lock(load_mutex_);
  EngineLoad load;
  load.running = scheduler_load_.num_running;
  load.waiting = scheduler_load_.num_waiting;
  load.kv_usage = static_cast<double>(scheduler_load_.blocks_owned) / options_.scheduler.num_blocks;
  load.tokens_per_second = throughput_.TokensPerSecond(now);
  return load;
}

absl::Time EngineLoop::last_progress() const {
  if (waits_for_work_.load() && inbox_.num_open() == 0) return options_.clock();
  return absl::FromUnixNanos(last_progress_ns_.load());
}

void EngineLoop::Run() {
  // How large the cache is shows before the first request.
  if (observer_ != nullptr) observer_->OnStep(LoadReport());
  bool goes_on = true;
  while (goes_on) {
    const SchedulerLoad load = scheduler_.load();
    {
      const std::lock_guard<std::mutex> lock(load_mutex_);
      scheduler_load_ = load;
    }
    last_progress_ns_.store(absl::ToUnixNanos(options_.clock()));
    const bool idle = failed_ || (num_in_flight() == 0 && scheduler_.idle());
    waits_for_work_.store(idle);
    goes_on = inbox_.Take(load.num_waiting, load.queued_prompt_tokens, idle, kIdleWait, commands_);
    waits_for_work_.store(false);
    const absl::Time now = options_.clock();
    for (const InboxCommand& command : commands_) Apply(command, now);
    if (!failed_) requests_.EndExpired(now);
    requests_.Publish(now);
    if (failed_ || !goes_on) continue;
    const bool launched = num_in_flight() < kMaxInFlight && LaunchStep();
    if (!launched || num_in_flight() == kMaxInFlight) CompleteStep();
  }
  // The runner may still write to the slots.
  for (; num_in_flight() > 0; ++num_completed_) {
    runner_.Wait(slots_[num_completed_ % kMaxInFlight].ticket).IgnoreError();
  }
}

void EngineLoop::Apply(const InboxCommand& command, absl::Time now) {
  switch (command.kind) {
    case InboxCommand::Kind::kSubmit:
      if (failed_) return requests_.End(command.request, failure_, now);
      return requests_.Admit(command.request, now, started_);
    case InboxCommand::Kind::kCancel:
      return requests_.End(command.request, command.reason, now);
    case InboxCommand::Kind::kCancelChoice:
      return requests_.StopChoice(command.request, command.choice, now);
  }
}

bool EngineLoop::LaunchStep() {
  const absl::Time now = options_.clock();
  Slot& slot = slots_[num_launched_ % kMaxInFlight];
  scheduler_.Schedule(now, slot.input.plan, finished_);
  const bool let_go = !finished_.empty();
  RetireFinished();
  if (slot.input.plan.empty()) {
    if (!let_go && num_in_flight() == 0 && !scheduler_.idle()) {
      Fail(absl::InternalError("the scheduler holds requests but plans nothing"));
    }
    return false;
  }
  requests_.NoteScheduled(slot.input.plan, now);
  slot.input.started.clear();
  slot.input.started.swap(started_);
  slot.input.ended.clear();
  slot.input.ended.swap(ended_);
  slot.launch_time = now;
  slot.ticket = runner_.Launch(slot.input, slot.output);
  ++num_launched_;
  return true;
}

void EngineLoop::CompleteStep() {
  if (num_in_flight() == 0) return;
  Slot& slot = slots_[num_completed_ % kMaxInFlight];
  const absl::Status status = runner_.Wait(slot.ticket);
  ++num_completed_;
  if (!status.ok()) return Fail(status);
  const absl::Time now = options_.clock();
  const StepPlan& plan = slot.input.plan;
  requests_.TakePromptScores(plan, slot.output.prompt_scores, now);
  requests_.TakeAttention(plan, slot.output.attention);
  samples_.clear();
  for (const ScheduledSequence& sequence : plan.sequences) {
    if (!sequence.samples) continue;
    const SampledToken& sample = slot.output.samples[samples_.size()];
    samples_.push_back(requests_.TakeSample(sequence, sample, now));
  }
  scheduler_.Commit(plan.step, {.samples = samples_}, finished_);
  RetireFinished();
  ReportStep(slot, now);
  last_result_time_ = now;
  requests_.Publish(now);
}

void EngineLoop::RetireFinished() {
  for (const FinishedRequest& finished : finished_) {
    requests_.Retire(finished);
    ended_.push_back(finished.id);
  }
  finished_.clear();
}

void EngineLoop::ReportStep(const Slot& slot, absl::Time now) {
  {
    const std::lock_guard<std::mutex> lock(load_mutex_);
    throughput_.Add(slot.input.plan.num_samples, now);
  }
  if (observer_ == nullptr) return;
  StepReport report = LoadReport();
  // With two steps in flight a step begins when the one before it has ended.
  report.step_time = now - std::max(slot.launch_time, last_result_time_);
  for (const ScheduledSequence& sequence : slot.input.plan.sequences) {
    const bool decodes = sequence.samples && sequence.query_length == 1;
    (decodes ? report.num_decode_tokens : report.num_prefill_tokens) += sequence.query_length;
  }
  report.attention = requests_.attention_series();
  for (const StepAttentionReport& rank : slot.output.attention) {
    for (std::size_t i = 0; i < kNumRowLengths; ++i) report.fidelity[i].Add(rank.fidelity[i]);
    report.shadow.Add(rank.shadow);
  }
  observer_->OnStep(report);
}

StepReport EngineLoop::LoadReport() const {
  StepReport report;
  const SchedulerLoad load = scheduler_.load();
  report.num_running = load.num_running;
  report.num_waiting = load.num_waiting;
  report.blocks_free = load.blocks_free;
  report.blocks_cached = load.blocks_cached;
  report.blocks_owned = load.blocks_owned;
  report.num_preemptions = load.num_preemptions;
  report.prefix_queried_tokens = load.prefix_queried_tokens;
  report.prefix_hit_tokens = load.prefix_hit_tokens;
  report.prompt_tokens = requests_.num_prompt_tokens();
  report.generated_tokens = requests_.num_generated_tokens();
  return report;
}

void EngineLoop::Fail(const absl::Status& reason) {
  std::fprintf(stderr, "level=error event=engine_failed status=\"%s\"\n",
               reason.ToString().c_str());
  failure_ = absl::UnavailableError(
      absl::StrCat("the engine has failed: ", std::string(reason.message())));
  inbox_.Close(failure_);
  failed_.store(true);
  const absl::Time now = options_.clock();
  requests_.EndAll(failure_, now);
  requests_.Publish(now);
}

}  // namespace thresher
