// One layer of thresholded attention on the CPU: the units of a plan dealt to threads.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention_threshold_plan.h"
#include "kernels/cpu/attention_threshold_unit.h"
#include "kernels/cpu/attention_unit.h"
#include "kernels/cpu/parallel.h"
#include "kernels/ops/attention_kernel.h"

namespace thresher {

struct ThresholdLoopTables {
  const AttentionAllLoops& all;  // of dense rows
  const AttentionThresholdLoops& threshold;
};

// Borrows everything for one Run. The arguments have been checked.
class ThresholdRun final {
 public:
  // selection null: SelectAll.
  ThresholdRun(AttentionPhase phase, const AttentionPlan& plan, const AttentionLayer& layer,
               const SelectAboveThreshold* selection, const ThresholdLoopTables& loops,
               const ThresholdWorkspace& layout, ThreadTeam& team);
  void Run() const;

 private:
  // Whether the thread has run the item's keys' predecessors just now, and how many of their
  // successors it runs next.
  struct Neighbours {
    bool follows = false;
    int num_keys_after = 0;
  };

  // Of a sequence's queries, those that are thresholded; the ones before and after read all.
  struct SparseQueries {
    int first = 0, end = 0;
  };
  SparseQueries SparseQueriesOf(int sequence) const;
  // Of an item of one query.
  int NumKeys(const AttentionWorkItem& item) const;
  bool IsSparse(const AttentionWorkItem& item) const;
  bool IsPost() const {
    return selection_ != nullptr && selection_->placement == ThresholdPlacement::kPost;
  }
  std::int64_t NumItems() const { return static_cast<std::int64_t>(plan_.items.size()); }

  ThresholdCounts& CountsOf(int sequence, int query, int kv_head) const;
  void CountDenseRows() const;

  float* FloatsAt(std::size_t offset) const;  // of the workspace, bytes
  std::int32_t* Counters() const { return static_cast<std::int32_t*>(plan_.workspace); }
  float* Scratch(int thread) const;
  float* PartialsAt(std::int32_t partial) const;
  std::int64_t PartialStride() const;  // floats
  ThresholdState StateOf(const AttentionWorkItem& item) const;

  // Fill parts of the state of the item's row.
  void FillThresholds(const AttentionWorkItem& item, const ThresholdState& state) const;
  void FillValueSum(const AttentionWorkItem& item, const ThresholdState& state) const;
  // base: the unit's k or v.
  void SumKeys(const AttentionWorkItem& item, const std::byte* AttentionUnit::*base,
               const TensorView& sums, float* sum) const;

  ThresholdUnit UnitFor(const AttentionWorkItem& item, const ThresholdState& state) const;
  ThresholdMerge MergeFor(const AttentionWorkItem& item, const ThresholdState& state) const;
  // Writes the row's output and counts it.
  void FinishRow(const ThresholdMerge& merge, const AttentionWorkItem& item, float* scratch) const;

  void RunPrefillUnit(const AttentionWorkItem& item, float* scratch) const;
  void RunDenseDecode(const AttentionWorkItem& item, float* scratch) const;
  void RunSplit(const AttentionWorkItem& item, const Neighbours& neighbours, float* scratch) const;
  void RunWholeRow(const AttentionWorkItem& item, float* scratch) const;
  void RunItem(std::int64_t index, const Neighbours& neighbours, int thread) const;
  // Of kPost: the scores of a split, and with the row's last one its thresholds.
  void ScoreItem(std::int64_t index, const Neighbours& neighbours, int thread) const;

  // Fills the states of rows that are split.
  void PrepareMerges() const;
  // Gives the split rows from item `first` on their place for scores, as many as there is room for;
  // returns the first item without.
  std::int64_t GiveScoresFrom(std::int64_t first) const;

  // Runs body(item, neighbours, thread) for the items [first, end), a few in a row by one thread.
  template <typename Body>
  void ForItems(std::int64_t first, std::int64_t end, const Body& body) const;

  const AttentionPhase phase_;
  const AttentionPlan& plan_;
  const AttentionLayer& layer_;
  const SelectAboveThreshold* const selection_;
  const ThresholdLoopTables loops_;
  ThreadTeam& team_;
  const int group_size_;
  const ThresholdWorkspace layout_;
  const std::int64_t num_prefill_units_;
  const bool is_small_;
};

}  // namespace thresher
