#include "tests/support/simulation/scheduler_simulation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace thresher::simulation {
namespace {

constexpr int kGeneratedVocabulary = 1000;

absl::Status Wrong(RequestId id, std::string_view what) {
  return absl::InternalError(
      absl::StrCat("request ", static_cast<std::int64_t>(id), ": ", std::string(what)));
}

absl::Time TimeOf(std::int64_t step) { return absl::FromUnixMillis(step); }

}  // namespace

SchedulerSimulation::SchedulerSimulation(const SimulationOptions& options)
    : options_(options),
      scheduler_(options.scheduler),
      trace_(options.trace, options.scheduler),
      store_(options.scheduler.num_blocks, options.scheduler.block_size),
      guard_(options.scheduler.num_blocks) {}

absl::Status SchedulerSimulation::Run() {
  absl::Status status = options_.scheduler.Validate();
  while (status.ok() && step_ < options_.num_steps) status = Step();
  draining_ = true;
  while (status.ok() && !(scheduler_.idle() && live_.empty())) {
    if (scheduler_.idle()) return absl::InternalError("idle with requests alive");
    status = Step();
  }
  if (!status.ok()) {
    return absl::InternalError(absl::StrCat("seed ", options_.trace.seed, ", step ", step_, ": ",
                                            std::string(status.message())));
  }
  if (scheduler_.load().blocks_owned != 0) return absl::InternalError("idle, and blocks are owned");
  return absl::OkStatus();
}

absl::Status SchedulerSimulation::Step() {
  ++step_;
  ++figures_.num_steps;
  if (!draining_) {
    if (absl::Status status = SubmitBurst(); !status.ok()) return status;
    CancelSome();
  }
  if (absl::Status status = Schedule(); !status.ok()) return status;
  if (absl::Status status = scheduler_.CheckInvariants(); !status.ok()) return status;
  if (!draining_ && trace_.Pick(4) == 0) CancelSome();
  const bool nothing_new =
      num_launched_ > 0 && launched_[(oldest_ + num_launched_ - 1) % 2].plan.empty();
  if (nothing_new) --num_launched_;
  if (num_launched_ == options_.plans_in_flight || (nothing_new && num_launched_ > 0)) {
    if (absl::Status status = CommitOldest(); !status.ok()) return status;
    if (absl::Status status = scheduler_.CheckInvariants(); !status.ok()) return status;
  }
  if (absl::Status status = CheckLoad(); !status.ok()) return status;
  return CheckWaits();
}

absl::Status SchedulerSimulation::SubmitBurst() {
  std::vector<TracedRequest> burst = trace_.NextBurst();
  if (burst.empty()) return absl::OkStatus();
  std::vector<RequestSpec> specs;
  for (const TracedRequest& request : burst) specs.push_back(request.spec);
  const absl::Status submitted = scheduler_.Submit(specs, TimeOf(step_));
  if (absl::Status status = CheckSubmit(submitted, burst); !status.ok()) return status;
  if (!submitted.ok()) {
    ++(absl::IsResourceExhausted(submitted) ? figures_.num_queue_full : figures_.num_refused);
    return absl::OkStatus();
  }
  for (TracedRequest& request : burst) {
    Live live;
    live.spec = std::move(request.spec);
    live.tokens = std::move(live.spec.prompt);
    live.prompt_length = static_cast<int>(live.tokens.size());
    std::uint64_t prefix = 0;
    for (const TokenId token : live.tokens) live.prefixes.push_back(prefix = Chain(prefix, token));
    live.end_after = request.end_after;
    const SchedulerOptions& limits = options_.scheduler;
    live.limit = std::min(limits.max_sequence_length, limits.num_blocks * limits.block_size + 1) -
                 live.prompt_length;
    if (live.spec.max_new_tokens) live.limit = std::min(live.limit, *live.spec.max_new_tokens);
    live.arrival = next_arrival_++;
    if (live.spec.use_prefix_cache && limits.prefix_cache) live.leader = live.spec.prefix_leader;
    const RequestId id = live.spec.id;
    Live& entered = live_.emplace(id, std::move(live)).first->second;
    StartWaiting(entered);
  }
  return absl::OkStatus();
}

// What Submit must say, worked out from the contract alone.
absl::Status SchedulerSimulation::CheckSubmit(const absl::Status& status,
                                              const std::vector<TracedRequest>& burst) {
  const SchedulerOptions& limits = options_.scheduler;
  bool fits = static_cast<int>(burst.size()) <= limits.max_queued_requests;
  std::int64_t prompt_tokens = 0;
  for (const TracedRequest& request : burst) {
    const int prompt = static_cast<int>(request.spec.prompt.size());
    prompt_tokens += prompt;
    int rows = prompt;
    if (request.spec.max_new_tokens) {
      rows = std::min(prompt + *request.spec.max_new_tokens, limits.max_sequence_length) - 1;
    }
    if (prompt >= limits.max_sequence_length || rows > limits.num_blocks * limits.block_size) {
      fits = false;
    }
  }
  const SchedulerLoad load = scheduler_.load();
  if (!fits) {
    return absl::IsInvalidArgument(status)
               ? absl::OkStatus()
               : absl::InternalError("a request that can never fit was not refused");
  }
  if (status.ok()) {
    return load.num_waiting <= limits.max_queued_requests
               ? absl::OkStatus()
               : absl::InternalError("more requests wait than may");
  }
  const bool full =
      load.num_waiting + static_cast<int>(burst.size()) > limits.max_queued_requests ||
      load.queued_prompt_tokens + prompt_tokens > limits.max_queued_prompt_tokens;
  if (absl::IsResourceExhausted(status) && full) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("refused without cause: ", std::string(status.message())));
}

void SchedulerSimulation::CancelSome() {
  if (live_.empty() || !trace_.Cancels()) return;
  auto it = live_.begin();
  std::advance(it, trace_.Pick(static_cast<int>(live_.size())));
  scheduler_.Cancel(it->first);
  if (it->second.cancelled) return;
  it->second.cancelled = true;
  it->second.cancelled_in_plan = InPlan(it->first);
}

bool SchedulerSimulation::InPlan(RequestId id) const {
  for (int i = 0; i < num_launched_; ++i) {
    const StepPlan& plan = launched_[(oldest_ + i) % 2].plan;
    if (std::ranges::any_of(plan.sequences, [&](const auto& s) { return s.id == id; })) return true;
  }
  return false;
}

absl::Status SchedulerSimulation::Schedule() {
  FreeFollowers();
  Launched& launched = launched_[(oldest_ + num_launched_) % 2];
  scheduler_.Schedule(TimeOf(step_), launched.plan, finished_);
  if (absl::Status status = TakeFinished(/*in_commit=*/false); !status.ok()) return status;
  const bool stuck = launched.plan.empty() && num_launched_ == 0 && !scheduler_.idle();
  num_empty_ = stuck ? num_empty_ + 1 : 0;
  // One empty plan is possible: the sequence that runs alone has preempted itself.
  if (num_empty_ > 1) return absl::InternalError("nothing is in flight and nothing is scheduled");
  ++num_launched_;
  if (launched.plan.empty()) return absl::OkStatus();
  HashPlan(launched.plan);
  if (absl::Status status = CheckPlan(launched.plan); !status.ok()) return status;
  return Launch(launched);
}

absl::Status SchedulerSimulation::Launch(Launched& launched) {
  const int slot = static_cast<int>(&launched - launched_.data());
  const StepPlan& plan = launched.plan;
  if (absl::Status status = guard_.Launch(plan, options_.scheduler.block_size, slot);
      !status.ok()) {
    return status;
  }
  launched.samples.clear();
  for (const ScheduledSequence& sequence : plan.sequences) {
    Live& request = live_.at(sequence.id);
    const absl::Status status = store_.Run(sequence, plan.BlocksOf(sequence),
                                           {request.prefixes, request.spec.prefix_salts});
    if (!status.ok()) return status;
    request.device_length = sequence.context_length + sequence.query_length;
    if (!sequence.samples) continue;
    // The next token depends on all before it, so that any wrong row shows in the output.
    const TokenId token =
        static_cast<TokenId>(Random(request.prefixes.back()).Next() % kGeneratedVocabulary);
    request.tokens.push_back(token);
    request.prefixes.push_back(Chain(request.prefixes.back(), token));
    const int generated = static_cast<int>(request.tokens.size()) - request.prompt_length;
    launched.samples.push_back({token, generated == request.end_after});
  }
  return absl::OkStatus();
}

absl::Status SchedulerSimulation::CommitOldest() {
  Launched& launched = launched_[oldest_];
  std::size_t sample = 0;
  for (const ScheduledSequence& sequence : launched.plan.sequences) {
    const auto it = live_.find(sequence.id);
    if (it != live_.end() && !it->second.cancelled) {
      it->second.num_committed += sequence.samples;
      it->second.prompt_computed |=
          sequence.context_length + sequence.query_length >= it->second.prompt_length;
    }
    sample += sequence.samples;
  }
  if (sample != launched.samples.size()) return absl::InternalError("samples are miscounted");
  scheduler_.Commit(launched.plan.step, {launched.samples}, finished_);
  guard_.Retire(oldest_);
  oldest_ = (oldest_ + 1) % 2;
  --num_launched_;
  return TakeFinished(/*in_commit=*/true);
}

absl::Status SchedulerSimulation::TakeFinished(bool in_commit) {
  for (const FinishedRequest& report : finished_) {
    const auto it = live_.find(report.id);
    if (it == live_.end()) return Wrong(report.id, "finished twice, or never submitted");
    const Live& request = it->second;
    if (request.cancelled != (report.cause == FinishCause::kCancelled)) {
      return Wrong(report.id, "a cancel and its report do not agree");
    }
    if (request.cancelled && request.cancelled_in_plan != in_commit) {
      return Wrong(report.id, "a cancel was reported by the wrong call");
    }
    if (report.num_generated != request.num_committed) {
      return Wrong(report.id, absl::StrCat("reports ", report.num_generated, " tokens; committed ",
                                           request.num_committed));
    }
    const bool at_end = report.num_generated == request.end_after;
    const bool right = report.cause == FinishCause::kCancelled ? true
                       : report.cause == FinishCause::kEndToken
                           ? at_end
                           : !at_end && report.num_generated == request.limit;
    if (!right || report.num_generated > request.limit) {
      return Wrong(report.id, absl::StrCat("ended after ", report.num_generated, " tokens"));
    }
    ++(request.cancelled ? figures_.num_cancelled : figures_.num_finished);
    live_.erase(it);
  }
  finished_.clear();
  return absl::OkStatus();
}

}  // namespace thresher::simulation
