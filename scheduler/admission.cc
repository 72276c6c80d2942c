// Which waiting requests start in this step.
#include <algorithm>
#include <cstdint>

#include "scheduler/scheduler_state.h"

namespace thresher {

// Tries the queue in order. Past a request that does not fit, a bounded number of others are tried,
// and one that was passed too often lets nobody pass any more.
void Scheduler::State::Admit(absl::Time now) {
  int num_unfit = 0;
  int position = 0;
  while (position < queue.size() && chunk_budget > 0 &&
         static_cast<int>(running.size()) < options.max_running) {
    const bool others_wait = position + 1 < queue.size();
    if (TryAdmit(queue.request(position), others_wait, now)) {
      queue.EraseAt(position);
      // All that stand before this position do not fit.
      bool may_pass = true;
      for (int passed = 0; passed < position; ++passed) {
        queue.CountSkip(passed);
        may_pass = may_pass && queue.skips(passed) < options.max_head_skips;
      }
      if (!may_pass) return;
      continue;
    }
    if (queue.skips(position) >= options.max_head_skips) return;
    if (++num_unfit > options.max_lookahead) return;
    ++position;
  }
}

// A request that certainly finishes is promised all its blocks. A preemptible one is promised those
// of the tokens it has and, to keep it from being preempted soon, a reserve is kept free: without
// max_new_tokens, reserve_tokens; after each preemption as much again, so that a request comes back
// later and later until all it can ever need is free.
BlockPromise Scheduler::State::PromiseFor(const Request& request) const {
  const int most = blocks.BlocksFor(request.max_tokens - 1);
  if (!request.preemptible) return {.promised = most, .reserved = 0};
  const int num_known = static_cast<int>(request.known.size());
  const std::int64_t shares =
      request.num_preemptions + (options.admission == Admission::kEager ? 0 : 1);
  const int promised = blocks.BlocksFor(num_known);
  const int wanted = blocks.BlocksFor(num_known + shares * options.reserve_tokens);
  return {.promised = promised, .reserved = std::min(wanted, most) - promised};
}

bool Scheduler::State::TryAdmit(int request_index, bool others_wait, absl::Time now) {
  Request& request = requests[request_index];
  if (request.tried_at_release == blocks.num_releases()) return false;

  PrefillExtent extent{.context_length = request.hit_estimate,
                       .prompt_length = request.prompt_length,
                       .num_tokens = static_cast<int>(request.known.size()),
                       .chunk_multiple = request.chunk_multiple};
  const int most = std::min(chunk_budget, max_prefill_chunk);
  const bool may_be_partial = num_partial < kMaxPartialPrefills;
  // The last lookup's hit tells cheaply that this step cannot hold it.
  if (request.looked_up && !may_be_partial && PrefillChunkEnd(extent, most) < extent.num_tokens) {
    return false;
  }
  const std::span<const BlockId> prefix = blocks.FindPrefix(request);
  request.looked_up = true;
  request.hit_estimate = static_cast<int>(prefix.size()) * options.block_size;
  extent.context_length = request.hit_estimate;
  int end = PrefillChunkEnd(extent, most);
  if (end < extent.num_tokens) {
    if (!may_be_partial || end == extent.context_length) return false;
    const int half = PrefillChunkEnd(extent, std::min(most, (chunk_budget + 1) / 2));
    if (others_wait && half > extent.context_length) end = half;
  }
  const BlockPromise promise = PromiseFor(request);
  if (blocks.RoomNeeded(prefix, promise) > blocks.room_to_admit()) {
    request.tried_at_release = blocks.num_releases();
    return false;
  }

  const int row = sequences.Add();
  Sequence& sequence = sequences[row];
  sequence.id = request.id;
  sequence.request = request_index;
  sequence.stage = SequenceStage::kRunning;
  sequence.preemptible = request.preemptible;
  sequence.context_length = sequence.committed_length = extent.context_length;
  sequence.num_tokens = sequence.num_known = extent.num_tokens;
  sequence.max_tokens = request.max_tokens;
  sequence.prompt_length = request.prompt_length;
  blocks.Admit(row, prefix, promise);
  running.insert(std::ranges::upper_bound(
                     running, request_index, [&](int a, int b) { return RanksBefore(a, b); },
                     [&](int other) { return sequences[other].request; }),
                 row);
  prefills.push_back(row);
  chunks.push_back({row, end});
  chunk_budget -= end - extent.context_length;
  num_partial += end < extent.num_tokens;

  queued_prompt_tokens -= request.prompt_length;
  request.stage = RequestStage::kRunning;
  request.sequence = row;
  if (request.num_preemptions == 0) {
    request.queue_time = now - request.submitted;
    request.num_prefix_hit_tokens = extent.context_length;
    if (request.use_prefix_cache) {
      prefix_queried_tokens += request.prompt_length;
      prefix_hit_tokens += extent.context_length;
    }
  }
  return true;
}

bool Scheduler::State::RanksBefore(int first_request, int second_request) const {
  const Request& first = requests[first_request];
  const Request& second = requests[second_request];
  return first.priority != second.priority ? first.priority < second.priority
                                           : first.arrival < second.arrival;
}

}  // namespace thresher
