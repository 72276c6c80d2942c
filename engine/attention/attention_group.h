// The sequences of a step that one policy serves in one phase: planned once, run once a layer,
// counted after the last.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/attention/attention_counts.h"
#include "engine/attention/attention_policy.h"
#include "engine/attention/policy_kind.h"
#include "kernels/backend.h"
#include "kernels/ops/attention_kernel.h"
#include "scheduler/step_plan.h"

namespace thresher {

// How a group of thresholded rows runs in a step that is compared with dense attention.
enum class ShadowPass : std::uint8_t {
  kNone,
  kDense,    // dense attention instead; the cache keeps no sums
  kCompare,  // both, and the difference of their outputs
};

// One thread at a time. Allocates nothing after creation, except while plans still grow. Counting
// reads the device's memory from the host, which suits the CPU alone.
class AttentionGroup final {
 public:
  // Unimplemented if the backend has no kernel for the policy at this cache dtype and head size.
  // What is given by reference outlives the group; of the workspace, see PolicyResources.
  static absl::StatusOr<std::unique_ptr<AttentionGroup>> Create(int kind, AttentionPhase phase,
                                                                const AttentionCatalog& catalog,
                                                                const AttentionShape& shape,
                                                                const AttentionLimits& limits,
                                                                DType kv_dtype, Backend& backend,
                                                                DeviceBuffer& selection_workspace);

  int kind() const { return kind_; }
  AttentionPhase phase() const { return phase_; }
  bool empty() const { return sequences_.empty(); }
  // Whether its rows choose single keys, which the kernel counts.
  bool is_thresholded() const {
    return mechanism_ == AttentionMechanism::kAboveThreshold ||
           mechanism_ == AttentionMechanism::kRanked;
  }

  // Of the planned step if the group's selection is the same in every such step; else 0.
  std::uint64_t launch_key() const {
    return mechanism_ == AttentionMechanism::kAll ? plan_.launch_key : 0;
  }

  // Null: nobody looks. Outlives the steps that it sees.
  void ObserveLists(BlockListObserver* observer) { list_observer_ = observer; }

  void Clear();
  // `index` is the sequence's in the plan, `first_row` its first row in the step.
  void Add(const SequenceAttention& sequence, int index, int first_row,
           std::span<const BlockId> blocks);
  absl::Status Plan(Stream& stream);
  // Before a pass that runs dense attention too, after Plan.
  absl::Status PlanShadow(Stream& stream);
  // Rows of other groups are left alone.
  absl::Status Run(int layer_index, const AttentionLayer& layer, ShadowPass pass, Stream& stream);
  // After the stream has been waited for: adds to the entries of the group's sequences and to the
  // rest of the report. Once a step.
  void Collect(StepAttentionReport& report) const;

 private:
  AttentionGroup(int kind, AttentionPhase phase, const AttentionCatalog& catalog,
                 const AttentionShape& shape);
  absl::Status Prepare(const AttentionLimits& limits, DType kv_dtype, Backend& backend,
                       DeviceBuffer& selection_workspace);
  absl::Status PrepareShadow(const AttentionLimits& limits, DType kv_dtype, Backend& backend);
  AttentionBatch Batch() const;
  void SizeForLargest(const AttentionLimits& limits);
  void CountBlocks(const SelectBlocks& lists);
  // targets [num_sequences], the k of each in this layer; 0: dense. longest_row: keys of the
  // longest row that is not dense.
  absl::Status Compare(const AttentionLayer& layer, std::span<const std::int32_t> targets,
                       int longest_row, Stream& stream);
  void CollectRows(std::size_t sequence, AttentionCounts& counts,
                   StepAttentionReport& report) const;

  const int kind_;
  const AttentionPhase phase_;
  const AttentionCatalog& catalog_;
  const AttentionShape shape_;
  AttentionMechanism mechanism_{};
  std::int64_t row_bytes_ = 0;  // of one K or V row
  std::unique_ptr<AttentionPolicy> policy_;
  const AttentionKernel* kernel_ = nullptr;
  DeviceBuffer workspace_;
  DeviceBuffer counts_;  // ThresholdCounts [queries, KV heads], of a thresholded group

  // For comparing with dense attention; null if that never happens.
  const AttentionKernel* dense_kernel_ = nullptr;
  DeviceBuffer dense_workspace_, dense_out_;
  AttentionPlan dense_plan_;
  bool plans_dense_ = false;  // in this step
  ShadowReport shadow_;

  // This step's share.
  std::vector<SequenceAttention> sequences_;
  std::vector<int> indices_;
  std::vector<std::int64_t> blocks_selected_;  // [num_sequences], over layers and heads
  int sums_per_block_ = 0;                     // of the cache's, that a thresholded row reads
  std::vector<std::int32_t> query_start_, first_row_, context_length_;
  std::vector<std::int32_t> block_tables_, block_table_start_;
  AttentionPlan plan_;
  LayerSelector* selector_ = nullptr;
  BlockListObserver* list_observer_ = nullptr;
};

}  // namespace thresher
