// Plans one step: decodes first, then prefill chunks into what is left of the token budget.
#include <algorithm>

#include "scheduler/broken_invariant.h"
#include "scheduler/scheduler_state.h"

namespace thresher {

void Scheduler::State::Schedule(absl::Time now, StepPlan& plan) {
  RequireInvariant(num_plans < 2, "at most two plans may be in flight", num_plans, next_step);
  plan.sequences.clear();
  plan.tokens.clear();
  plan.block_table.clear();
  plan.sequences.reserve(options.max_running);
  plan.tokens.reserve(options.token_budget);
  plan.block_table.reserve(static_cast<std::size_t>(options.max_running) *
                           blocks.BlocksFor(options.max_sequence_length));
  plan.step = StepId{next_step};
  plan.num_tokens = 0;
  plan.num_samples = 0;
  InFlightPlan& record = plans[num_plans];
  record.step = plan.step;
  record.sequences.clear();
  chunks.clear();
  claimed_room = 0;
  short_of_blocks = false;

  ScheduleDecodes(plan);
  const bool may_admit =
      !short_of_blocks && static_cast<int>(running.size()) < options.max_running && !queue.empty();
  PlanChunks(options.token_budget - plan.num_tokens, may_admit);
  if (may_admit) Admit(now);
  ExtendChunks();
  EmitChunks(plan);

  if (plan.empty()) return;
  record.num_samples = plan.num_samples;
  ++num_plans;
  ++next_step;
}

void Scheduler::State::ScheduleDecodes(StepPlan& plan) {
  for (std::size_t position = 0; position < running.size();) {
    const int row = running[position];
    const Sequence& sequence = sequences[row];
    // With max_tokens all sampled or under way, the sequence only waits for its last commit.
    if (sequence.decoding() && sequence.num_tokens < sequence.max_tokens) {
      if (blocks.Holds(row, sequence.context_length)) {
        Emit(row, 1, /*prefill=*/false, plan);
      } else {
        const Growth growth = GrowDecode(static_cast<int>(position));
        if (growth == Growth::kPreempted) continue;  // another one has this position now
        if (growth == Growth::kTaken) Emit(row, 1, /*prefill=*/false, plan);
      }
    }
    ++position;
  }
}

PrefillExtent Scheduler::State::ExtentOf(int row) const {
  const Sequence& sequence = sequences[row];
  return {.context_length = sequence.context_length,
          .prompt_length = sequence.prompt_length,
          .num_tokens = sequence.num_tokens,
          .chunk_multiple = requests[sequence.request].chunk_multiple};
}

// Oldest first. Each takes at most half of what is left while others want a share, so that a short
// prompt behind a long one starts at once and the long one keeps half of the budget.
void Scheduler::State::PlanChunks(int budget, bool others_wait) {
  chunk_budget = budget;
  num_partial = 0;
  for (std::size_t i = 0; i < prefills.size(); ++i) {
    const PrefillExtent extent = ExtentOf(prefills[i]);
    const int most = std::min(chunk_budget, max_prefill_chunk);
    const bool shares = others_wait || i + 1 < prefills.size();
    int end = PrefillChunkEnd(extent, shares ? std::min(most, (chunk_budget + 1) / 2) : most);
    // The first always moves, even if half of the budget does not reach its next border.
    if (i == 0 && end == extent.context_length) end = PrefillChunkEnd(extent, most);
    chunk_budget -= end - extent.context_length;
    num_partial += end < extent.num_tokens;
    chunks.push_back({prefills[i], end});
  }
}

// What nobody else wanted goes to the chunks, oldest first.
void Scheduler::State::ExtendChunks() {
  for (PlannedChunk& chunk : chunks) {
    if (chunk_budget <= 0) return;
    const PrefillExtent extent = ExtentOf(chunk.row);
    const int length = chunk.end - extent.context_length;
    const int end = PrefillChunkEnd(extent, std::min(length + chunk_budget, max_prefill_chunk));
    if (end <= chunk.end) continue;
    chunk_budget -= end - chunk.end;
    chunk.end = end;
  }
}

void Scheduler::State::EmitChunks(StepPlan& plan) {
  for (const PlannedChunk& chunk : chunks) {
    const int query_length = chunk.end - sequences[chunk.row].context_length;
    if (query_length == 0) continue;
    blocks.Grow(chunk.row, blocks.BlocksFor(chunk.end));
    Emit(chunk.row, query_length, /*prefill=*/true, plan);
  }
  std::erase_if(prefills, [&](int row) { return sequences[row].decoding(); });
}

void Scheduler::State::Emit(int row, int query_length, bool prefill, StepPlan& plan) {
  Sequence& sequence = sequences[row];
  const std::span<const BlockId> table = sequences.blocks(row);
  const int num_blocks = blocks.BlocksFor(sequence.context_length + query_length);
  const bool samples = sequence.context_length + query_length == sequence.num_tokens;
  plan.sequences.push_back({.id = sequence.id,
                            .context_length = sequence.context_length,
                            .query_length = query_length,
                            .samples = samples,
                            .first_token = plan.num_tokens,
                            .first_block = static_cast<int>(plan.block_table.size()),
                            .num_blocks = num_blocks});
  plan.block_table.insert(plan.block_table.end(), table.begin(), table.begin() + num_blocks);
  if (prefill) {
    const auto first = requests[sequence.request].known.begin() + sequence.context_length;
    plan.tokens.insert(plan.tokens.end(), first, first + query_length);
  } else if (sequence.num_pending_samples > 0) {
    plan.tokens.push_back(kPendingToken);
  } else {
    plan.tokens.push_back(sequence.last_token);
  }
  plan.num_tokens += query_length;
  plan.num_samples += samples;
  sequence.context_length += query_length;
  sequence.num_tokens += samples;
  sequence.num_pending_samples += samples;
  ++sequence.num_plans;
  plans[num_plans].sequences.push_back(
      {.row = row, .query_length = query_length, .samples = samples, .prefill = prefill});
}

}  // namespace thresher
