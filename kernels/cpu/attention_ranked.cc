#include "kernels/cpu/attention_ranked.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "kernels/cpu/attention_all.h"
#include "kernels/cpu/attention_call.h"
#include "kernels/cpu/ranked_rows.h"
#include "kernels/device/shape_check.h"

namespace thresher {
namespace {

constexpr const char* kOp = "attention";
constexpr int kQueriesOfTask = 16;

absl::Status CheckSelection(const SelectRanked& selection, const AttentionBatch& batch) {
  absl::Status status =
      CheckCount(kOp, "targets.size", static_cast<std::int64_t>(selection.targets.size()),
                 batch.num_sequences());
  if (status.ok() && !selection.compensates.empty()) {
    status =
        CheckCount(kOp, "compensates.size", static_cast<std::int64_t>(selection.compensates.size()),
                   batch.num_sequences());
  }
  for (const std::int32_t target : selection.targets) {
    if (status.ok() && target != 0) {
      status = CheckRange(kOp, "targets", target, selection.by_pages ? kRankedPage : 1, INT32_MAX);
    }
  }
  return status;
}

int NumQueries(const AttentionBatch& batch, int sequence) {
  return batch.query_start[sequence + 1] - batch.query_start[sequence];
}

int LongestSequence(const AttentionBatch& batch) {
  int longest = 1;
  for (int s = 0; s < batch.num_sequences(); ++s) {
    longest = std::max(longest, batch.context_length[s] + NumQueries(batch, s));
  }
  return longest;
}

// Dense rows are those of the kernel of mechanism `all`, which runs first, over all rows; sparse
// ones are then written over.
class AttentionRanked final : public AttentionKernel {
 public:
  AttentionRanked(std::unique_ptr<AttentionKernel> all, CpuIsa isa, ThreadTeam& team)
      : all_(std::move(all)), loops_{RowOpsFor(isa), ScoreRowsFor(isa)}, team_(team) {}

  AttentionKey key() const override {
    AttentionKey key = all_->key();
    key.mechanism = AttentionMechanism::kRanked;
    return key;
  }

  std::size_t WorkspaceBytes(const AttentionBatch& largest) const override {
    return ScratchOffset(largest) + ScratchBytes(largest) * NumThreads() + kLine;
  }

  absl::Status Plan(const AttentionBatch& batch, DeviceBuffer& workspace, Stream& stream,
                    AttentionPlan& plan) const override {
    if (absl::Status status = all_->Plan(batch, workspace, stream, plan); !status.ok()) {
      return status;
    }
    return TakeAttentionWorkspace(workspace, WorkspaceBytes(batch), plan);
  }

  absl::Status Run(const AttentionPlan& plan, const AttentionLayer& layer,
                   const KvSelection& selection, Stream& stream) const override {
    const auto* ranked = std::get_if<SelectRanked>(&selection);
    if (ranked == nullptr && !std::holds_alternative<SelectAll>(selection)) {
      return absl::InvalidArgumentError(
          "attention: the kernel of mechanism `ranked` carries out SelectRanked and SelectAll "
          "alone");
    }
    absl::Status status;
    if (ranked != nullptr) status = CheckSelection(*ranked, plan.batch);
    if (status.ok()) status = all_->Run(plan, layer, SelectAll{}, stream);
    if (!status.ok()) return status;
    if (layer.counts != nullptr) CountDenseRows(plan.batch, ranked, layer.counts);
    if (ranked == nullptr) return status;
    const std::size_t offset = ScratchOffset(plan.batch), each = ScratchBytes(plan.batch);
    auto* const workspace = static_cast<std::byte*>(plan.workspace);
    for (int s = 0; s < plan.batch.num_sequences(); ++s) {
      const int target = ranked->targets[s];
      const int num_queries = NumQueries(plan.batch, s);
      if (target == 0 || plan.batch.context_length[s] + num_queries <= target) continue;
      const int slices = (num_queries + kQueriesOfTask - 1) / kQueriesOfTask;
      team_.ParallelFor(
          std::int64_t{slices} * plan.batch.num_kv_heads, [&](std::int64_t task, int thread) {
            // The longest rows first.
            const auto slice = slices - 1 - static_cast<int>(task / plan.batch.num_kv_heads);
            const auto kv_head = static_cast<int>(task % plan.batch.num_kv_heads);
            RunRankedRows(UnitOf(plan, layer, *ranked, s, slice * kQueriesOfTask, kv_head), loops_,
                          reinterpret_cast<float*>(workspace + offset + each * thread));
          });
    }
    return status;
  }

 private:
  static constexpr std::size_t kLine = 64;

  static bool IsSparse(const SelectRanked* ranked, int sequence, int num_keys) {
    return ranked != nullptr && ranked->targets[sequence] != 0 &&
           num_keys > ranked->targets[sequence];
  }

  static void CountDenseRows(const AttentionBatch& batch, const SelectRanked* ranked,
                             ThresholdCounts* counts) {
    for (int s = 0; s < batch.num_sequences(); ++s) {
      for (int query = 0; query < NumQueries(batch, s); ++query) {
        const int num_keys = batch.context_length[s] + query + 1;
        if (IsSparse(ranked, s, num_keys)) continue;
        ThresholdCounts* of_row =
            counts + std::int64_t{batch.query_start[s] + query} * batch.num_kv_heads;
        for (int kv_head = 0; kv_head < batch.num_kv_heads; ++kv_head) {
          of_row[kv_head].key_rows += num_keys;
          of_row[kv_head].value_rows += num_keys;
        }
      }
    }
  }

  static RankedUnit UnitOf(const AttentionPlan& plan, const AttentionLayer& layer,
                           const SelectRanked& ranked, int sequence, int first_query, int kv_head) {
    const AttentionBatch& batch = plan.batch;
    const int group_size = batch.num_heads / batch.num_kv_heads;
    const int end = std::min(first_query + kQueriesOfTask, NumQueries(batch, sequence));
    RankedUnit unit{.rows = AttentionUnitOf(plan, layer,
                                            {.sequence = sequence,
                                             .kv_head = kv_head,
                                             .first_row = first_query * group_size,
                                             .num_rows = (end - first_query) * group_size,
                                             .num_keys = batch.context_length[sequence] + end}),
                    .target = ranked.targets[sequence],
                    .by_pages = ranked.by_pages,
                    .compensates = !ranked.compensates.empty() && ranked.compensates[sequence] != 0,
                    .counts_stride = batch.num_kv_heads,
                    .survivors_stride = batch.num_heads};
    const std::int64_t first = batch.query_start[sequence];
    if (layer.counts != nullptr) {
      unit.counts = layer.counts + first * batch.num_kv_heads + kv_head;
    }
    if (layer.survivors != nullptr) {
      unit.survivors = layer.survivors + first * batch.num_heads + kv_head * group_size;
    }
    return unit;
  }

  // Each thread's scratch lies behind the other kernel's workspace, from a cache line on.
  std::size_t ScratchOffset(const AttentionBatch& batch) const {
    return (all_->WorkspaceBytes(batch) + kLine - 1) / kLine * kLine;
  }
  std::size_t ScratchBytes(const AttentionBatch& batch) const {
    const std::int64_t floats = RankedScratchFloats(LongestSequence(batch), batch.head_dim,
                                                    batch.num_heads / batch.num_kv_heads);
    return static_cast<std::size_t>(floats) * sizeof(float);
  }
  std::size_t NumThreads() const { return static_cast<std::size_t>(team_.num_threads()); }

  const std::unique_ptr<AttentionKernel> all_;
  const RankedLoops loops_;
  ThreadTeam& team_;
};

}  // namespace

std::vector<std::unique_ptr<AttentionKernel>> MakeAttentionRankedKernels(CpuIsa isa,
                                                                         bool full_precision,
                                                                         ThreadTeam& team) {
  std::vector<std::unique_ptr<AttentionKernel>> kernels;
  for (std::unique_ptr<AttentionKernel>& all : MakeAttentionAllKernels(isa, full_precision, team)) {
    kernels.push_back(std::make_unique<AttentionRanked>(std::move(all), isa, team));
  }
  return kernels;
}

}  // namespace thresher
