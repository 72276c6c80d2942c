#include "kernels/cpu/attention_threshold_run.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/attention_all.h"
#include "kernels/cpu/attention_call.h"
#include "kernels/cpu/threshold_counts.h"

namespace thresher {
namespace {

constexpr std::int64_t kMaxItemsInARow = 8;

}  // namespace

ThresholdRun::ThresholdRun(AttentionPhase phase, const AttentionPlan& plan,
                           const AttentionLayer& layer, const SelectAboveThreshold* selection,
                           const ThresholdLoopTables& loops, const ThresholdWorkspace& layout,
                           ThreadTeam& team)
    : phase_(phase),
      plan_(plan),
      layer_(layer),
      selection_(selection),
      loops_(loops),
      team_(team),
      group_size_(plan.batch.num_heads / plan.batch.num_kv_heads),
      layout_(layout),
      num_prefill_units_(phase == AttentionPhase::kPrefill ? NumPrefillUnits(plan.batch) : 0),
      is_small_(IsSmall(plan)) {}

ThresholdRun::SparseQueries ThresholdRun::SparseQueriesOf(int sequence) const {
  const AttentionBatch& batch = plan_.batch;
  const int num_queries = batch.query_start[sequence + 1] - batch.query_start[sequence];
  const int target = selection_ == nullptr ? 0 : selection_->targets[sequence];
  if (target == 0) return {num_queries, num_queries};
  // The query at position p has p + 1 keys.
  const int context = batch.context_length[sequence];
  const int first = std::clamp(target - context, 0, num_queries);
  return {first, std::clamp(selection_->longest_row - context, first, num_queries)};
}

int ThresholdRun::NumKeys(const AttentionWorkItem& item) const {
  return plan_.batch.context_length[item.sequence] + item.first_row / group_size_ + 1;
}

bool ThresholdRun::IsSparse(const AttentionWorkItem& item) const {
  const int target = selection_ == nullptr ? 0 : selection_->targets[item.sequence];
  return target != 0 && NumKeys(item) > target && NumKeys(item) <= selection_->longest_row;
}

ThresholdCounts& ThresholdRun::CountsOf(int sequence, int query, int kv_head) const {
  const std::int64_t row = plan_.batch.query_start[sequence] + query;
  return layer_.counts[row * plan_.batch.num_kv_heads + kv_head];
}

void ThresholdRun::CountDenseRows() const {
  const AttentionBatch& batch = plan_.batch;
  for (int sequence = 0; sequence < batch.num_sequences(); ++sequence) {
    const int num_queries = batch.query_start[sequence + 1] - batch.query_start[sequence];
    const SparseQueries sparse = SparseQueriesOf(sequence);
    for (int query = 0; query < num_queries; ++query) {
      if (query >= sparse.first && query < sparse.end) continue;
      const int num_keys = batch.context_length[sequence] + query + 1;
      for (int kv_head = 0; kv_head < batch.num_kv_heads; ++kv_head) {
        ThresholdCounts& counts = CountsOf(sequence, query, kv_head);
        counts.key_rows += num_keys;
        counts.value_rows += num_keys;
      }
    }
  }
}

float* ThresholdRun::FloatsAt(std::size_t offset) const {
  return reinterpret_cast<float*>(static_cast<std::byte*>(plan_.workspace) + offset);
}

float* ThresholdRun::Scratch(int thread) const {
  return FloatsAt(layout_.scratch + layout_.scratch_each * thread);
}

ThresholdState ThresholdRun::StateOf(const AttentionWorkItem& item) const {
  const int head_dim = plan_.batch.head_dim;
  return {FloatsAt(layout_.states) + item.merge * ThresholdStateFloats(head_dim, group_size_),
          head_dim, group_size_};
}

float* ThresholdRun::PartialsAt(std::int32_t partial) const {
  return FloatsAt(layout_.partials) + partial * PartialStride();
}

std::int64_t ThresholdRun::PartialStride() const {
  return group_size_ * ThresholdPartialFloats(plan_.batch.head_dim);
}

void ThresholdRun::SumKeys(const AttentionWorkItem& item, const std::byte* AttentionUnit::*base,
                           const TensorView& sums, float* sum) const {
  const AttentionBatch& batch = plan_.batch;
  AttentionUnit rows = AttentionUnitOf(plan_, layer_, item);
  rows.num_keys = NumKeys(item);
  const int length = batch.context_length[item.sequence] + batch.query_start[item.sequence + 1] -
                     batch.query_start[item.sequence];
  BlockSums blocks;
  blocks.block_floats = std::int64_t{batch.num_kv_heads} * batch.head_dim;
  blocks.sums = sums.as<float>() + std::int64_t{item.kv_head} * batch.head_dim;
  // Later queries of the step have added their rows to the last block's sum.
  blocks.holds_last = rows.num_keys == length;
  loops_.threshold.sum_keys(rows, rows.*base, blocks, sum);
}

void ThresholdRun::FillThresholds(const AttentionWorkItem& item,
                                  const ThresholdState& state) const {
  const ThresholdGrid& grid = selection_->grid;
  AttentionUnit rows = AttentionUnitOf(plan_, layer_, item);
  rows.num_keys = NumKeys(item);
  const ThresholdPlace place =
      PlaceThreshold(grid, selection_->targets[item.sequence], rows.num_keys);
  for (int head = 0; head < group_size_; ++head) {
    const int of_layer = item.kv_head * group_size_ + head;
    state.thresholds[head] = ThresholdAt(grid, place, of_layer);
    if (selection_->denominator == DroppedDenominator::kCalibrated) {
      state.calibrated[head] = InterpolateGrid(grid, grid.dropped, place, of_layer);
    }
  }
  if (selection_->placement != ThresholdPlacement::kCentred) return;
  SumKeys(item, &AttentionUnit::k, layer_.cache.k_sums, state.key_sum);
  loops_.threshold.add_mean_score(rows, state.key_sum, state.thresholds);
}

void ThresholdRun::FillValueSum(const AttentionWorkItem& item, const ThresholdState& state) const {
  if (selection_->value_mean == ValueMean::kOff) return;
  SumKeys(item, &AttentionUnit::v, layer_.cache.v_sums, state.value_sum);
}

ThresholdUnit ThresholdRun::UnitFor(const AttentionWorkItem& item,
                                    const ThresholdState& state) const {
  ThresholdUnit unit;
  unit.rows = AttentionUnitOf(plan_, layer_, item);
  unit.thresholds = state.thresholds;
  unit.promotes = selection_->promotes;
  unit.sums_values = selection_->value_mean == ValueMean::kDropped;
  unit.score_stride = ScoreStride(NumKeys(item));
  return unit;
}

ThresholdMerge ThresholdRun::MergeFor(const AttentionWorkItem& item,
                                      const ThresholdState& state) const {
  ThresholdMerge merge;
  merge.rows = AttentionUnitOf(plan_, layer_, item);
  merge.rows.num_keys = NumKeys(item);
  merge.num_partials = NumDecodeSplits(merge.rows.num_keys);
  merge.stride = PartialStride();
  merge.thresholds = state.thresholds;
  merge.calibrated = state.calibrated;
  merge.value_sum = state.value_sum;
  merge.denominator = selection_->denominator;
  merge.value_mean = selection_->value_mean;
  merge.gamma = selection_->gamma;
  merge.promotes = selection_->promotes;
  return merge;
}

void ThresholdRun::FinishRow(const ThresholdMerge& merge, const AttentionWorkItem& item,
                             float* scratch) const {
  // Behind the merge's own scratch.
  auto* outcomes =
      reinterpret_cast<ThresholdOutcome*>(scratch + 4 * PaddedHeadDim(plan_.batch.head_dim));
  const int value_rows = loops_.threshold.merge(merge, scratch, outcomes);
  const int query = item.first_row / group_size_;
  if (layer_.survivors != nullptr) {
    const std::int64_t row = plan_.batch.query_start[item.sequence] + query;
    std::int32_t* const to =
        layer_.survivors + row * plan_.batch.num_heads + item.kv_head * group_size_;
    for (int head = 0; head < group_size_; ++head) to[head] = outcomes[head].survivors;
  }
  if (layer_.counts == nullptr) return;
  ThresholdCounts& counts = CountsOf(item.sequence, query, item.kv_head);
  counts.key_rows += merge.rows.num_keys;
  counts.value_rows += value_rows;
  for (int head = 0; head < group_size_; ++head) {
    CountHead(outcomes[head].survivors, selection_->targets[item.sequence],
              outcomes[head].dropped_mass, counts);
  }
}

void ThresholdRun::RunPrefillUnit(const AttentionWorkItem& item, float* scratch) const {
  // A row's bits depend neither on the unit's other rows nor on keys that it does not see, so the
  // dense rows of a unit may run without the others.
  AttentionUnit unit = AttentionUnitOf(plan_, layer_, item);
  const int unit_end = item.first_row + item.num_rows;
  const auto run = [&](int first_row, int end_row) {
    if (first_row >= end_row) return;
    unit.first_row = first_row;
    unit.num_rows = end_row - first_row;
    unit.num_keys = unit.context_length + (end_row - 1) / group_size_ + 1;
    loops_.all.prefill(unit, scratch);
  };
  const SparseQueries sparse = SparseQueriesOf(item.sequence);
  run(item.first_row, std::min(unit_end, sparse.first * group_size_));
  run(std::max(item.first_row, sparse.end * group_size_), unit_end);
}

void ThresholdRun::RunDenseDecode(const AttentionWorkItem& item, float* scratch) const {
  AttentionUnit unit = AttentionUnitOf(plan_, layer_, item);
  if (item.merge < 0) return DecodeAllSplits(loops_.all, unit, scratch);
  unit.partial = PartialsAt(item.partial);
  loops_.all.decode(unit, scratch);
  if (!FinishesMerge(plan_, item, Counters())) return;
  const std::int32_t first = plan_.merge_start[item.merge];
  loops_.all.merge(unit, PartialsAt(first), plan_.merge_start[item.merge + 1] - first,
                   PartialStride(), scratch);
}

void ThresholdRun::RunSplit(const AttentionWorkItem& item, const Neighbours& neighbours,
                            float* scratch) const {
  const ThresholdState state = StateOf(item);
  ThresholdUnit unit = UnitFor(item, state);
  unit.follows = neighbours.follows;
  unit.num_keys_after = neighbours.num_keys_after;
  unit.rows.partial = PartialsAt(item.partial);
  if (IsPost()) unit.scores = FloatsAt(layout_.scores) + *state.score_offset;
  loops_.threshold.attend(unit, scratch);
  if (!FinishesMerge(plan_, item, Counters())) return;
  ThresholdMerge merge = MergeFor(item, state);
  merge.partials = PartialsAt(plan_.merge_start[item.merge]);
  FinishRow(merge, item, scratch);
}

void ThresholdRun::RunWholeRow(const AttentionWorkItem& item, float* scratch) const {
  const ThresholdState state(scratch + layout_.thread_state, plan_.batch.head_dim, group_size_);
  FillThresholds(item, state);
  FillValueSum(item, state);
  ThresholdUnit unit = UnitFor(item, state);
  if (IsPost()) unit.scores = scratch + layout_.thread_scores;
  ThresholdMerge merge = MergeFor(item, state);
  merge.partials = scratch + layout_.thread_partials;
  const int num_keys = merge.rows.num_keys, split_size = DecodeSplitSize(num_keys);
  const auto for_splits = [&](void (*run)(const ThresholdUnit&, float*)) {
    for (int i = 0; i < merge.num_partials; ++i) {
      unit.rows.first_key = i * split_size;
      unit.rows.num_keys = std::min(split_size, num_keys - unit.rows.first_key);
      unit.rows.partial = scratch + layout_.thread_partials + i * merge.stride;
      unit.follows = i > 0;
      unit.num_keys_after =
          std::min(split_size, num_keys - unit.rows.first_key - unit.rows.num_keys);
      run(unit, scratch);
    }
  };
  if (IsPost()) {
    for_splits(loops_.threshold.score);
    loops_.threshold.add_log_sum(merge, state.thresholds);
  }
  for_splits(loops_.threshold.attend);
  FinishRow(merge, item, scratch);
}

void ThresholdRun::RunItem(std::int64_t index, const Neighbours& neighbours, int thread) const {
  const AttentionWorkItem& item = plan_.items[index];
  float* const scratch = Scratch(thread);
  if (index < num_prefill_units_) return RunPrefillUnit(item, scratch);
  if (!IsSparse(item)) {
    // In prefill the units before these have them.
    if (phase_ == AttentionPhase::kDecode) RunDenseDecode(item, scratch);
    return;
  }
  if (item.merge < 0) return RunWholeRow(item, scratch);
  RunSplit(item, neighbours, scratch);
}

void ThresholdRun::ScoreItem(std::int64_t index, const Neighbours& neighbours, int thread) const {
  const AttentionWorkItem& item = plan_.items[index];
  if (item.merge < 0 || !IsSparse(item)) return;
  const ThresholdState state = StateOf(item);
  ThresholdUnit unit = UnitFor(item, state);
  unit.follows = neighbours.follows;
  unit.num_keys_after = neighbours.num_keys_after;
  unit.rows.partial = PartialsAt(item.partial);
  unit.scores = FloatsAt(layout_.scores) + *state.score_offset;
  loops_.threshold.score(unit, Scratch(thread));
  if (!FinishesMerge(plan_, item, Counters())) return;
  ThresholdMerge merge = MergeFor(item, state);
  merge.partials = PartialsAt(plan_.merge_start[item.merge]);
  loops_.threshold.add_log_sum(merge, state.thresholds);
}

void ThresholdRun::PrepareMerges() const {
  if (plan_.merge_start.size() == 1) return;
  // A merge's first unit stands for its thresholds, its last one for the sum of V, so that a single
  // sequence's few KV heads are shared out evenly.
  const std::int64_t cost_each = plan_.batch.head_dim * 4;
  team_.ParallelRanges(NumItems(), cost_each, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const AttentionWorkItem& item = plan_.items[i];
      if (item.merge < 0 || !IsSparse(item)) continue;
      if (item.first_key == 0) FillThresholds(item, StateOf(item));
      if (item.partial + 1 == plan_.merge_start[item.merge + 1]) {
        FillValueSum(item, StateOf(item));
      }
    }
  });
}

std::int64_t ThresholdRun::GiveScoresFrom(std::int64_t first) const {
  std::int64_t used = 0;
  for (std::int64_t i = first; i < NumItems(); ++i) {
    const AttentionWorkItem& item = plan_.items[i];
    if (item.merge < 0 || item.first_key != 0 || !IsSparse(item)) continue;
    const std::int64_t floats = group_size_ * ScoreStride(NumKeys(item));
    if (used + floats > layout_.score_capacity) return i;
    *StateOf(item).score_offset = used;
    used += floats;
  }
  return NumItems();
}

template <typename Body>
void ThresholdRun::ForItems(std::int64_t first, std::int64_t end, const Body& body) const {
  // In a row, so that one item's keys are fetched while the one before it runs; not so many that
  // the threads end far apart. Items without a merge have nothing to follow.
  const std::int64_t share = (end - first) / (std::int64_t{4} * team_.num_threads());
  const std::int64_t in_a_row =
      plan_.merge_start.size() > 1 ? std::clamp<std::int64_t>(share, 1, kMaxItemsInARow) : 1;
  const std::int64_t num_tasks = (end - first + in_a_row - 1) / in_a_row;
  const auto run = [&](std::int64_t task, int thread) {
    const std::int64_t task_first = first + task * in_a_row;
    const std::int64_t task_end = std::min(task_first + in_a_row, end);
    for (std::int64_t i = task_first; i < task_end; ++i) {
      const std::int32_t merge = plan_.items[i].merge;
      Neighbours neighbours;
      if (merge >= 0) {
        neighbours.follows = i > task_first && plan_.items[i - 1].merge == merge;
        const bool goes_on = i + 1 < task_end && plan_.items[i + 1].merge == merge;
        neighbours.num_keys_after = goes_on ? plan_.items[i + 1].num_keys : 0;
      }
      body(i, neighbours, thread);
    }
  };
  if (is_small_) {
    for (std::int64_t task = 0; task < num_tasks; ++task) run(task, 0);
  } else {
    team_.ParallelFor(num_tasks, run);
  }
}

void ThresholdRun::Run() const {
  if (layer_.counts != nullptr) CountDenseRows();
  const auto run = [&](std::int64_t index, const Neighbours& neighbours, int thread) {
    RunItem(index, neighbours, thread);
  };
  const auto score = [&](std::int64_t index, const Neighbours& neighbours, int thread) {
    ScoreItem(index, neighbours, thread);
  };
  if (selection_ == nullptr) {
    ForItems(0, phase_ == AttentionPhase::kPrefill ? num_prefill_units_ : NumItems(), run);
    return;
  }
  PrepareMerges();
  for (std::int64_t first = 0; first < NumItems();) {
    std::int64_t end = NumItems();
    if (IsPost() && plan_.merge_start.size() > 1) {
      end = GiveScoresFrom(first);
      ForItems(first, end, score);
    }
    ForItems(first, end, run);
    first = end;
  }
}

}  // namespace thresher
