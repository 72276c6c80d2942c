// Plans of thresholded attention on the CPU: its units beside the dense ones, and its workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention_unit.h"
#include "kernels/ops/attention_kernel.h"

namespace thresher {

// Fills plan.items for a selection that is not yet known. Decode: PlanDecodeUnits; which rows are
// dense is seen when it runs. Prefill: PlanPrefillUnits, for dense rows, then one unit for each
// query and KV head, all its keys, longest first.
void PlanThresholdUnits(AttentionPhase phase, AttentionPlan& plan);

// How many of a prefill's items are PlanPrefillUnits'.
std::int64_t NumPrefillUnits(const AttentionBatch& batch);

// What stands for a row of a query and KV head before its keys are read. Views of memory of
// ThresholdStateFloats.
struct ThresholdState {
  ThresholdState(float* memory, int head_dim, int group_size);
  std::int64_t* score_offset;  // of its scores in the workspace, floats
  float* thresholds;           // [group_size], in units of the score
  float* calibrated;           // [group_size]
  float* value_sum;            // [head_dim]
  float* key_sum;              // [head_dim]
};
std::int64_t ThresholdStateFloats(int head_dim, int group_size);

// Scores of a row of `num_keys` keys take this many floats for each head.
constexpr std::int64_t ScoreStride(std::int64_t num_keys) {
  return (num_keys + kKeyTile - 1) / kKeyTile * kKeyTile;
}

// Counters of finished units, one for each merge; partial results; states of merges; scores of the
// merges of a wave (of kPost); scratch of each thread: scratch of a unit, then partial results,
// state and scores of a row that one thread runs alone. Offsets in bytes; the thread's within its
// scratch, in floats. Sizes are bounds that grow with the batch, so that a workspace for the
// largest batch is enough for every other.
struct ThresholdWorkspace {
  std::size_t partials = 0;
  std::size_t states = 0;
  std::size_t scores = 0;
  std::size_t scratch = 0;
  std::size_t scratch_each = 0;
  std::size_t total = 0;
  std::int64_t score_capacity = 0;  // floats
  std::int64_t thread_partials = 0;
  std::int64_t thread_state = 0;
  std::int64_t thread_scores = 0;
};
ThresholdWorkspace LayOutThreshold(AttentionPhase phase, const AttentionBatch& batch,
                                   std::int64_t wave_bytes, int num_threads);

}  // namespace thresher
