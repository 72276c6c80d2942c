// What happens when a decoding sequence needs a block and none is free beyond the promises.
#include <algorithm>

#include "scheduler/broken_invariant.h"
#include "scheduler/scheduler_state.h"

namespace thresher {

// Preempts from the end of `running`: the newest of the lowest priority that holds no promise, at
// last the sequence itself. Those behind it are in no plan of this step yet. Blocks that come back
// when a plan in flight commits are worth one step of waiting, never another victim.
Scheduler::State::Growth Scheduler::State::GrowDecode(int position) {
  const int row = running[position];
  const int needed = sequences[row].num_blocks + 1;
  if (sequences[row].promised_blocks > 0) {
    blocks.Grow(row, needed);
    return Growth::kTaken;
  }
  RequireInvariant(sequences[row].preemptible, "a sequence has used up the promise of all it needs",
                   row, needed);
  while (blocks.room_to_grow() < 1) {
    short_of_blocks = true;
    if (blocks.coming_room() > claimed_room) {
      ++claimed_room;
      return Growth::kStalled;
    }
    int victim = static_cast<int>(running.size()) - 1;
    while (!sequences[running[victim]].preemptible) --victim;
    RequireInvariant(victim >= position, "the sequence itself can be preempted", victim, position);
    // One whose last token is under way gives its blocks back as soon as any victim could.
    if (sequences[running[victim]].num_tokens == sequences[running[victim]].max_tokens) {
      return Growth::kStalled;
    }
    PreemptAt(victim);
    if (victim == position) return Growth::kPreempted;
  }
  blocks.Grow(row, needed);
  return Growth::kTaken;
}

void Scheduler::State::PreemptAt(int position) {
  const int row = running[position];
  Sequence& sequence = sequences[row];
  running.erase(running.begin() + position);
  std::erase(prefills, row);
  blocks.StopGrowing(row);
  sequence.stage = SequenceStage::kPreempting;
  Request& request = requests[sequence.request];
  request.stage = RequestStage::kPreempting;
  ++request.num_preemptions;
  ++num_preemptions;
  ++num_preempting;
  queued_prompt_tokens += request.prompt_length;
  if (sequence.num_plans == 0) Requeue(row);
}

// Keeps the generated tokens, which stand in the blocks, and gives the blocks back.
void Scheduler::State::Requeue(int row) {
  const Sequence& sequence = sequences[row];
  const int request_index = sequence.request;
  Request& request = requests[request_index];
  for (int position = sequence.num_known; position < sequence.committed_length; ++position) {
    request.known.push_back(blocks.ReadToken(row, position));
  }
  if (static_cast<int>(request.known.size()) < sequence.num_tokens) {
    request.known.push_back(sequence.last_token);
  }
  RequireInvariant(static_cast<int>(request.known.size()) == sequence.num_tokens,
                   "a preempted sequence keeps all its tokens",
                   static_cast<std::int64_t>(request.known.size()), sequence.num_tokens);
  FreeSequence(row);
  request.sequence = kNone;
  request.stage = RequestStage::kQueued;
  request.looked_up = false;
  request.hit_estimate = 0;
  --num_preempting;
  queue.Insert(request_index, request.priority, request.arrival);
}

}  // namespace thresher
