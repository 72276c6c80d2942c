#include "kernels/cpu/attention_threshold_plan.h"

#include <algorithm>

#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/attention_threshold_unit.h"

namespace thresher {
namespace {

constexpr std::size_t kLine = 64;
std::size_t RoundUpToLine(std::int64_t bytes) {
  return (static_cast<std::size_t>(bytes) + kLine - 1) / kLine * kLine;
}
std::int64_t RoundUpToLineFloats(std::int64_t floats) { return (floats + 15) / 16 * 16; }

}  // namespace

void PlanThresholdUnits(AttentionPhase phase, AttentionPlan& plan) {
  if (phase == AttentionPhase::kDecode) return PlanDecodeUnits(plan);
  PlanPrefillUnits(plan);
  const AttentionBatch& batch = plan.batch;
  const int group_size = batch.num_heads / batch.num_kv_heads;
  for (int sequence = 0; sequence < batch.num_sequences(); ++sequence) {
    const int num_queries = batch.query_start[sequence + 1] - batch.query_start[sequence];
    for (int query = num_queries - 1; query >= 0; --query) {
      AttentionWorkItem item;
      item.sequence = sequence;
      item.first_row = query * group_size;
      item.num_rows = group_size;
      item.num_keys = batch.context_length[sequence] + query + 1;
      for (item.kv_head = 0; item.kv_head < batch.num_kv_heads; ++item.kv_head) {
        plan.items.push_back(item);
      }
    }
  }
}

std::int64_t NumPrefillUnits(const AttentionBatch& batch) {
  const std::int64_t group_size = batch.num_heads / batch.num_kv_heads;
  std::int64_t units = 0;
  for (int sequence = 0; sequence < batch.num_sequences(); ++sequence) {
    const std::int64_t rows =
        group_size * (batch.query_start[sequence + 1] - batch.query_start[sequence]);
    units += (rows + kPrefillRows - 1) / kPrefillRows * batch.num_kv_heads;
  }
  return units;
}

ThresholdState::ThresholdState(float* memory, int head_dim, int group_size)
    : score_offset(reinterpret_cast<std::int64_t*>(memory)),
      thresholds(memory + 16),
      calibrated(thresholds + group_size),
      value_sum(calibrated + group_size),
      key_sum(value_sum + head_dim) {}

std::int64_t ThresholdStateFloats(int head_dim, int group_size) {
  return RoundUpToLineFloats(16 + 2 * group_size + 2 * head_dim);
}

ThresholdWorkspace LayOutThreshold(AttentionPhase phase, const AttentionBatch& batch,
                                   std::int64_t wave_bytes, int num_threads) {
  const int head_dim = batch.head_dim, group_size = batch.num_heads / batch.num_kv_heads;
  const bool decode = phase == AttentionPhase::kDecode;
  const PartialCounts most = decode ? MostPartials(batch) : PartialCounts{};
  std::int64_t longest = 0, all_scores = 0;
  for (int sequence = 0; sequence < batch.num_sequences(); ++sequence) {
    const std::int64_t length = batch.context_length[sequence] + batch.query_start[sequence + 1] -
                                batch.query_start[sequence];
    longest = std::max(longest, length);
    if (decode) all_scores += batch.num_kv_heads * group_size * ScoreStride(length);
  }
  const std::int64_t one_row = group_size * ScoreStride(longest);
  const std::int64_t partials = group_size * ThresholdPartialFloats(head_dim);
  const std::int64_t state = ThresholdStateFloats(head_dim, group_size);
  const std::int64_t float_bytes = sizeof(float);

  ThresholdWorkspace layout;
  layout.score_capacity =
      decode ? std::max(one_row, std::min(all_scores, num_threads * wave_bytes / float_bytes)) : 0;
  layout.partials = RoundUpToLine(most.merges * std::int64_t{sizeof(std::int32_t)});
  layout.states = layout.partials + RoundUpToLine(float_bytes * most.partials * partials);
  layout.scores = layout.states + RoundUpToLine(float_bytes * most.merges * state);
  layout.scratch = layout.scores + RoundUpToLine(float_bytes * layout.score_capacity);

  const std::int64_t dense = decode ? DecodeScratchFloats(head_dim, group_size) +
                                          kMaxSplits * group_size * PartialFloats(head_dim)
                                    : PrefillScratchFloats(head_dim);
  layout.thread_partials = RoundUpToLineFloats(ThresholdScratchFloats(head_dim, group_size));
  layout.thread_state = layout.thread_partials + RoundUpToLineFloats(kMaxSplits * partials);
  layout.thread_scores = layout.thread_state + state;
  layout.scratch_each =
      RoundUpToLine(float_bytes * std::max(dense, layout.thread_scores + one_row));
  layout.total = layout.scratch + layout.scratch_each * num_threads + kLine;
  return layout;
}

}  // namespace thresher
