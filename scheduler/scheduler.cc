#include "scheduler/scheduler.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "scheduler/scheduler_state.h"

namespace thresher {
namespace {

int MaxBlocksPerSequence(const SchedulerOptions& options) {
  return (options.max_sequence_length + options.block_size - 1) / options.block_size;
}

}  // namespace

Scheduler::State::State(const SchedulerOptions& scheduler_options)
    : options(scheduler_options),
      max_prefill_chunk(options.max_prefill_chunk > 0 ? options.max_prefill_chunk
                                                      : options.token_budget),
      requests(options.max_queued_requests + options.max_running),
      // A sequence that ended may be named by the plan in flight while another has its place.
      sequences(2 * options.max_running, MaxBlocksPerSequence(options)),
      blocks(options.num_blocks, options.block_size,
             {.enabled = options.prefix_cache, .max_chain_blocks = MaxBlocksPerSequence(options)},
             sequences),
      queue(options.max_queued_requests + options.max_running,
            std::int64_t{kArrivalsPerPriorityAndWaiting} * options.max_queued_requests) {
  running.reserve(options.max_running);
  prefills.reserve(options.max_running);
  chunks.reserve(options.max_running);
  cancelled.reserve(options.max_queued_requests + options.max_running);
  for (InFlightPlan& plan : plans) plan.sequences.reserve(options.max_running);
}

Scheduler::Scheduler(const SchedulerOptions& options) : state_(std::make_unique<State>(options)) {}
Scheduler::~Scheduler() = default;

absl::Status Scheduler::Submit(std::span<RequestSpec> specs, absl::Time now) {
  State& state = *state_;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (absl::Status status = state.CheckSpec(specs[i]); !status.ok()) return status;
    for (std::size_t j = 0; j < i; ++j) {
      if (specs[j].id == specs[i].id) {
        return absl::InvalidArgumentError(absl::StrCat(
            "request id ", static_cast<std::int64_t>(specs[i].id), " is submitted twice at once"));
      }
    }
  }
  if (absl::Status status = state.CheckRoom(specs); !status.ok()) return status;
  for (RequestSpec& spec : specs) state.Enqueue(spec, now);
  return absl::OkStatus();
}

void Scheduler::Cancel(RequestId id) {
  const int request = state_->requests.Find(id);
  if (request != kNone) state_->CancelRequest(request);
}

void Scheduler::Schedule(absl::Time now, StepPlan& plan, std::vector<FinishedRequest>& finished) {
  state_->ReportCancelled(/*in_plan=*/false, finished);
  state_->Schedule(now, plan);
}

void Scheduler::Commit(StepId step, const StepResult& result,
                       std::vector<FinishedRequest>& finished) {
  state_->Commit(step, result, finished);
}

bool Scheduler::idle() const {
  return state_->requests.size() == 0 && state_->num_plans == 0 && state_->cancelled.empty();
}

SchedulerLoad Scheduler::load() const {
  const State& state = *state_;
  const BlockPool& pool = state.blocks.pool();
  return {.num_waiting = state.NumWaiting(),
          .num_running = static_cast<int>(state.running.size()),
          .queued_prompt_tokens = state.queued_prompt_tokens,
          .blocks_free = pool.num_free(),
          .blocks_cached = pool.num_cached(),
          .blocks_owned = pool.num_owned(),
          .num_preemptions = state.num_preemptions,
          .prefix_queried_tokens = state.prefix_queried_tokens,
          .prefix_hit_tokens = state.prefix_hit_tokens};
}

std::optional<RequestProgress> Scheduler::Progress(RequestId id) const {
  const int index = state_->requests.Find(id);
  if (index == kNone) return std::nullopt;
  const Request& request = state_->requests[index];
  RequestProgress progress{.num_prefix_hit_tokens = request.num_prefix_hit_tokens,
                           .num_preemptions = request.num_preemptions,
                           .queue_time = request.queue_time};
  if (request.stage == RequestStage::kRunning) {
    progress.state = RequestState::kRunning;
    progress.num_computed_tokens = state_->sequences[request.sequence].committed_length;
  } else {
    progress.state =
        request.num_preemptions > 0 ? RequestState::kPreempted : RequestState::kWaiting;
  }
  return progress;
}

absl::Status Scheduler::CheckInvariants() const { return state_->CheckInvariants(); }

}  // namespace thresher
