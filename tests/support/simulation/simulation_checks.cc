// What a plan, the load and the waits must look like.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/support/simulation/scheduler_simulation.h"

namespace thresher::simulation {
namespace {

absl::Status Wrong(RequestId id, std::string_view what) {
  return absl::InternalError(
      absl::StrCat("request ", static_cast<std::int64_t>(id), ": ", std::string(what)));
}

}  // namespace

absl::Status SchedulerSimulation::CheckPlan(const StepPlan& plan) {
  const SchedulerOptions& limits = options_.scheduler;
  int num_tokens = 0;
  int num_samples = 0;
  int num_blocks = 0;
  bool prefill_seen = false;
  std::vector<RequestId> ids;
  for (const ScheduledSequence& sequence : plan.sequences) {
    const auto it = live_.find(sequence.id);
    if (it == live_.end()) return Wrong(sequence.id, "scheduled, and not alive");
    if (it->second.cancelled) return Wrong(sequence.id, "scheduled after its cancel");
    Live& request = it->second;
    if (absl::Status status = CheckSequence(sequence, plan); !status.ok()) return status;
    if (sequence.first_token != num_tokens || sequence.first_block != num_blocks) {
      return Wrong(sequence.id, "its arrays do not follow those before");
    }
    num_tokens += sequence.query_length;
    num_blocks += sequence.num_blocks;
    num_samples += sequence.samples;
    ids.push_back(sequence.id);
    const bool prefill =
        sequence.context_length < request.prompt_length || sequence.query_length > 1;
    prefill_seen = prefill_seen || prefill;
    if (prefill_seen && !prefill && request.num_preemptions == 0) {
      return Wrong(sequence.id, "a decode stands behind a prefill chunk");
    }
    if (!request.started) {
      if (absl::Status status = NoteStart(request); !status.ok()) return status;
    }
  }
  std::ranges::sort(ids);
  if (std::ranges::adjacent_find(ids) != ids.end()) {
    return absl::InternalError("a sequence is twice in a plan");
  }
  if (num_tokens != plan.num_tokens || num_samples != plan.num_samples ||
      num_tokens != static_cast<int>(plan.tokens.size()) ||
      num_blocks != static_cast<int>(plan.block_table.size())) {
    return absl::InternalError("a plan's counts disagree with its sequences");
  }
  if (num_tokens > limits.token_budget ||
      static_cast<int>(plan.sequences.size()) > limits.max_running) {
    return absl::InternalError(absl::StrCat("a plan of ", num_tokens, " tokens and ",
                                            plan.sequences.size(), " sequences is too large"));
  }
  return absl::OkStatus();
}

absl::Status SchedulerSimulation::CheckSequence(const ScheduledSequence& sequence,
                                                const StepPlan& plan) {
  const SchedulerOptions& limits = options_.scheduler;
  Live& request = live_.at(sequence.id);
  const RequestProgress progress = *scheduler_.Progress(sequence.id);
  const int end = sequence.context_length + sequence.query_length;
  if (progress.num_preemptions > request.num_preemptions) {
    if (request.spec.max_new_tokens && limits.admission == Admission::kNoEvict) {
      return Wrong(sequence.id, "preempted against the promise");
    }
    for (auto& [id, other] : live_) other.allowed_wait += ServiceSteps(request);
    figures_.num_preemptions += progress.num_preemptions - request.num_preemptions;
    request.num_preemptions = progress.num_preemptions;
    request.device_length = sequence.context_length;
  } else if (!request.started) {
    if (progress.num_prefix_hit_tokens != sequence.context_length) {
      return Wrong(sequence.id, "starts elsewhere than behind its prefix hit");
    }
    if (!request.spec.use_prefix_cache && sequence.context_length > 0) {
      return Wrong(sequence.id, "skips prompt tokens that it asked to compute");
    }
    figures_.prefix_hit_tokens += sequence.context_length;
    request.device_length = sequence.context_length;
  }
  const bool continues = sequence.context_length == request.device_length;
  if (continues && sequence.context_length < request.prompt_length &&
      sequence.context_length % request.spec.prefill_chunk_multiple != 0) {
    return Wrong(sequence.id, absl::StrCat("starts a chunk at ", sequence.context_length));
  }
  if (!continues) {
    return Wrong(sequence.id, absl::StrCat("continues at ", sequence.context_length, " after ",
                                           request.device_length));
  }
  const int known = static_cast<int>(request.tokens.size());
  if (sequence.query_length < 1 || end > known) return Wrong(sequence.id, "runs unknown tokens");
  if (sequence.samples != (end == known)) return Wrong(sequence.id, "samples elsewhere than last");
  if (sequence.query_length > 1 && limits.max_prefill_chunk > 0 &&
      sequence.query_length > limits.max_prefill_chunk) {
    return Wrong(sequence.id, "a chunk is longer than max_prefill_chunk");
  }
  if (sequence.context_length < request.prompt_length && end != request.prompt_length &&
      (end > request.prompt_length || end % request.spec.prefill_chunk_multiple != 0)) {
    return Wrong(sequence.id, absl::StrCat("a chunk ends at ", end));
  }
  if (sequence.num_blocks != (end + limits.block_size - 1) / limits.block_size) {
    return Wrong(sequence.id, "its block table does not cover its tokens");
  }
  if (request.tokens.size() - request.prompt_length >= static_cast<std::size_t>(request.limit)) {
    return Wrong(sequence.id, "runs past its limit");
  }
  for (int i = 0; i < sequence.query_length; ++i) {
    const TokenId token = plan.TokensOf(sequence)[i];
    const int position = sequence.context_length + i;
    // Pending: sampled by a plan that has not committed.
    const bool pending = position >= request.prompt_length + request.num_committed;
    if (token != (pending ? kPendingToken : request.tokens[position])) {
      return Wrong(sequence.id, absl::StrCat("token ", token, " at position ", position));
    }
  }
  return absl::OkStatus();
}

std::int64_t SchedulerSimulation::ServiceSteps(const Live& request) const {
  return static_cast<std::int64_t>(request.tokens.size()) / kLeastChunk +
         std::min(request.limit, request.end_after) + 6;
}

void SchedulerSimulation::StartWaiting(Live& request) {
  request.waits_since = step_;
  request.allowed_wait = 0;
  request.num_passed = 0;
  for (const auto& [id, other] : live_) request.allowed_wait += ServiceSteps(other);
}

absl::Status SchedulerSimulation::NoteStart(Live& started) {
  started.started = true;
  figures_.longest_wait =
      std::max(figures_.longest_wait, static_cast<int>(step_ - started.waits_since));
  if (started.leader) return Wrong(started.spec.id, "started before its leader's prompt was ready");
  for (auto& [id, waiting] : live_) {
    if (waiting.started || waiting.leader || waiting.cancelled) continue;
    if (waiting.arrival > started.arrival) continue;
    waiting.allowed_wait += ServiceSteps(started);
    if (waiting.spec.priority > started.spec.priority) continue;
    if (++waiting.num_passed > options_.scheduler.max_head_skips) {
      return Wrong(id, absl::StrCat("passed ", waiting.num_passed, " times"));
    }
  }
  return absl::OkStatus();
}

void SchedulerSimulation::FreeFollowers() {
  for (auto& [id, request] : live_) {
    if (request.started || request.cancelled || !request.leader) continue;
    const auto leader = live_.find(*request.leader);
    if (leader != live_.end() && !leader->second.prompt_computed && !leader->second.cancelled) {
      continue;
    }
    request.leader.reset();
    StartWaiting(request);
  }
}

absl::Status SchedulerSimulation::CheckWaits() const {
  for (const auto& [id, request] : live_) {
    if (request.started || request.cancelled || request.leader) continue;
    if (step_ - request.waits_since > request.allowed_wait) {
      return Wrong(id, absl::StrCat("waits for more than ", request.allowed_wait, " steps"));
    }
  }
  return absl::OkStatus();
}

absl::Status SchedulerSimulation::CheckLoad() const {
  const SchedulerLoad load = scheduler_.load();
  if (load.blocks_free + load.blocks_cached + load.blocks_owned != options_.scheduler.num_blocks) {
    return absl::InternalError("the load does not count every block once");
  }
  int num_live = 0;
  for (const auto& [id, request] : live_) num_live += !request.cancelled;
  if (load.num_waiting + load.num_running != num_live) {
    return absl::InternalError(absl::StrCat(load.num_waiting, " wait and ", load.num_running,
                                            " run of ", num_live, " requests"));
  }
  return absl::OkStatus();
}

void SchedulerSimulation::HashPlan(const StepPlan& plan) {
  std::uint64_t hash = figures_.plan_hash;
  for (const ScheduledSequence& s : plan.sequences) {
    hash = Chain(Chain(Chain(hash, static_cast<std::int64_t>(s.id)), s.context_length),
                 s.query_length);
  }
  for (const BlockId block : plan.block_table) hash = Chain(hash, static_cast<int>(block));
  figures_.plan_hash = hash;
}

}  // namespace thresher::simulation
