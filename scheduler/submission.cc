// How requests enter, wait for one another, and leave by being cancelled.
#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/scheduler_state.h"

namespace thresher {
namespace {

// The tokens of a request at most: what it asks for, the longest sequence, and the whole cache. The
// last token is sampled and never computed, so it needs no place in a block.
int MaxTokens(const RequestSpec& spec, const SchedulerOptions& options) {
  std::int64_t limit = options.max_sequence_length;
  const std::int64_t prompt_length = static_cast<std::int64_t>(spec.prompt.size());
  if (spec.max_new_tokens) limit = std::min(limit, prompt_length + *spec.max_new_tokens);
  return static_cast<int>(
      std::min(limit, std::int64_t{options.num_blocks} * options.block_size + 1));
}

absl::Status Invalid(const RequestSpec& spec, const std::string& reason) {
  return absl::InvalidArgumentError(
      absl::StrCat("request ", static_cast<std::int64_t>(spec.id), ": ", reason));
}

}  // namespace

absl::Status Scheduler::State::CheckSpec(const RequestSpec& spec) const {
  const std::int64_t prompt_length = static_cast<std::int64_t>(spec.prompt.size());
  if (requests.Find(spec.id) != kNone ||
      std::ranges::any_of(cancelled, [&](const auto& c) { return c.report.id == spec.id; })) {
    return Invalid(spec, "the id is in use");
  }
  if (prompt_length < 1) return Invalid(spec, "the prompt has no token");
  if (prompt_length >= options.max_sequence_length) {
    return Invalid(spec, absl::StrCat("the prompt has ", prompt_length,
                                      " tokens; with one to generate, at most ",
                                      options.max_sequence_length - 1, " fit a sequence"));
  }
  if (spec.max_new_tokens && *spec.max_new_tokens < 1) {
    return Invalid(spec,
                   absl::StrCat("max_new_tokens is ", *spec.max_new_tokens, "; at least 1 is"));
  }
  const int largest_chunk = std::min(max_prefill_chunk, options.token_budget - options.max_running);
  if (spec.prefill_chunk_multiple < 1 || spec.prefill_chunk_multiple > largest_chunk) {
    return Invalid(spec, absl::StrCat("prefill_chunk_multiple is ", spec.prefill_chunk_multiple,
                                      "; a step always has room for 1 to ", largest_chunk));
  }
  if (spec.prefix_leader == spec.id) return Invalid(spec, "the request is its own prefix_leader");
  if (absl::Status status = ValidateSaltSpans(spec.prefix_salts); !status.ok()) return status;

  std::int64_t needed = prompt_length;
  if (spec.max_new_tokens) {
    needed =
        std::min<std::int64_t>(prompt_length + *spec.max_new_tokens, options.max_sequence_length) -
        1;
  }
  if (blocks.BlocksFor(needed) > options.num_blocks) {
    return Invalid(
        spec, absl::StrCat("a prompt of ", prompt_length, " tokens",
                           spec.max_new_tokens
                               ? absl::StrCat(" and max_new_tokens of ", *spec.max_new_tokens)
                               : std::string(),
                           " needs ", blocks.BlocksFor(needed), " blocks of ", options.block_size,
                           " tokens; the cache has ", options.num_blocks));
  }
  return absl::OkStatus();
}

absl::Status Scheduler::State::CheckRoom(std::span<const RequestSpec> specs) const {
  const std::int64_t num_specs = static_cast<std::int64_t>(specs.size());
  if (num_specs > options.max_queued_requests) {
    return absl::InvalidArgumentError(absl::StrCat(num_specs, " requests at once; the queue holds ",
                                                   options.max_queued_requests));
  }
  if (NumWaiting() + num_specs > options.max_queued_requests) {
    return absl::ResourceExhaustedError(
        absl::StrCat("queue full: ", NumWaiting(), " requests wait and ", num_specs,
                     " come; the limit is ", options.max_queued_requests));
  }
  std::int64_t prompt_tokens = 0;
  for (const RequestSpec& spec : specs) {
    prompt_tokens += static_cast<std::int64_t>(spec.prompt.size());
  }
  // Into an empty queue anything may go that can run at all, else it could never be served.
  if (NumWaiting() > 0 && queued_prompt_tokens + prompt_tokens > options.max_queued_prompt_tokens) {
    return absl::ResourceExhaustedError(
        absl::StrCat("queue full: ", queued_prompt_tokens, " prompt tokens wait and ",
                     prompt_tokens, " come; the limit is ", options.max_queued_prompt_tokens));
  }
  return absl::OkStatus();
}

void Scheduler::State::Enqueue(RequestSpec& spec, absl::Time now) {
  Request request;
  request.id = spec.id;
  request.prompt_length = static_cast<int>(spec.prompt.size());
  request.max_tokens = MaxTokens(spec, options);
  request.preemptible = !spec.max_new_tokens || options.admission == Admission::kEager;
  request.known = std::move(spec.prompt);
  request.salts = std::move(spec.prefix_salts);
  request.use_prefix_cache = spec.use_prefix_cache && options.prefix_cache;
  request.priority = spec.priority;
  request.chunk_multiple = spec.prefill_chunk_multiple;
  request.arrival = next_arrival++;
  request.submitted = now;
  queued_prompt_tokens += request.prompt_length;

  // Without sharing, waiting for the leader gains nothing.
  int leader = kNone;
  if (spec.prefix_leader && request.use_prefix_cache) leader = requests.Find(*spec.prefix_leader);
  if (leader != kNone && requests[leader].prompt_computed) leader = kNone;
  const int index = requests.Add(std::move(request));
  Request& added = requests[index];
  if (leader == kNone) {
    queue.Insert(index, added.priority, added.arrival);
    return;
  }
  added.stage = RequestStage::kFollowing;
  added.leader = leader;
  added.next_follower = requests[leader].first_follower;
  requests[leader].first_follower = index;
  ++num_following;
}

void Scheduler::State::FreeFollowers(int request_index) {
  int follower = requests[request_index].first_follower;
  requests[request_index].first_follower = kNone;
  while (follower != kNone) {
    Request& request = requests[follower];
    queue.Insert(follower, request.priority, request.arrival);
    request.stage = RequestStage::kQueued;
    request.leader = kNone;
    follower = std::exchange(request.next_follower, kNone);
    --num_following;
  }
}

void Scheduler::State::StopFollowing(int request_index) {
  Request& request = requests[request_index];
  int* link = &requests[request.leader].first_follower;
  while (*link != request_index) link = &requests[*link].next_follower;
  *link = request.next_follower;
  --num_following;
}

void Scheduler::State::CancelRequest(int request_index) {
  Request& request = requests[request_index];
  CancelledRequest record{{request.id, FinishCause::kCancelled, NumGenerated(request)}, false};
  FreeFollowers(request_index);
  if (request.stage != RequestStage::kRunning) queued_prompt_tokens -= request.prompt_length;
  switch (request.stage) {
    case RequestStage::kQueued:
      queue.Erase(request_index, request.priority, request.arrival);
      break;
    case RequestStage::kFollowing:
      StopFollowing(request_index);
      break;
    case RequestStage::kPreempting:
      record.in_plan = true;
      EndSequence(request.sequence);
      --num_preempting;
      break;
    case RequestStage::kRunning: {
      const int row = request.sequence;
      record.in_plan = sequences[row].num_plans > 0;
      EndSequence(row);
      std::erase(running, row);
      std::erase(prefills, row);
      break;
    }
  }
  requests.Remove(request_index);
  cancelled.push_back(record);
}

void Scheduler::State::ReportCancelled(bool in_plan, std::vector<FinishedRequest>& finished) {
  std::erase_if(cancelled, [&](const CancelledRequest& record) {
    if (record.in_plan != in_plan) return false;
    finished.push_back(record.report);
    return true;
  });
}

}  // namespace thresher
