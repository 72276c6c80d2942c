#include "kernels/cpu/attention_all.h"

#include <cstring>
#include <variant>

#include "kernels/cpu/attention_call.h"
#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/attention_unit.h"

namespace thresher {
namespace {

class AttentionAll final : public AttentionKernel {
 public:
  AttentionAll(AttentionPhase phase, DType kv_dtype, const AttentionAllLoops& loops,
               ThreadTeam& team)
      : key_{AttentionMechanism::kAll, phase, kv_dtype, 0}, loops_(loops), team_(team) {}

  AttentionKey key() const override { return key_; }

  std::size_t WorkspaceBytes(const AttentionBatch& largest) const override {
    const PartialCounts most =
        key_.phase == AttentionPhase::kDecode ? MostPartials(largest) : PartialCounts{};
    return LayOutWorkspace(key_.phase, largest, most.merges, most.partials, team_.num_threads())
        .total;
  }

  absl::Status Plan(const AttentionBatch& batch, DeviceBuffer& workspace, Stream&,
                    AttentionPlan& plan) const override {
    absl::Status status = CheckAttentionBatch(batch);
    if (!status.ok()) return status;
    plan.batch = batch;
    if (key_.phase == AttentionPhase::kPrefill) {
      PlanPrefillUnits(plan);
    } else {
      PlanDecodeUnits(plan);
    }
    const AttentionWorkspace layout = LayoutOf(plan);
    status = TakeAttentionWorkspace(workspace, layout.total, plan);
    if (!status.ok()) return status;
    std::memset(plan.workspace, 0, layout.partials);
    return absl::OkStatus();
  }

  absl::Status Run(const AttentionPlan& plan, const AttentionLayer& layer,
                   const KvSelection& selection, Stream&) const override {
    if (!std::holds_alternative<SelectAll>(selection)) {
      return absl::InvalidArgumentError(
          "attention: the kernel of mechanism `all` carries out SelectAll alone");
    }
    absl::Status status = CheckAttentionLayer(plan, layer, key_.kv_dtype);
    if (!status.ok()) return status;
    const AttentionWorkspace layout = LayoutOf(plan);
    const auto run = [&](std::int64_t index, int thread) {
      RunItem(plan, layer, layout, plan.items[index], thread);
    };
    const std::int64_t num_items = static_cast<std::int64_t>(plan.items.size());
    if (IsSmall(plan)) {
      for (std::int64_t index = 0; index < num_items; ++index) run(index, 0);
    } else {
      team_.ParallelFor(num_items, run);
    }
    return absl::OkStatus();
  }

 private:
  AttentionWorkspace LayoutOf(const AttentionPlan& plan) const {
    return LayOutWorkspace(key_.phase, plan.batch,
                           static_cast<std::int64_t>(plan.merge_start.size()) - 1,
                           plan.merge_start.back(), team_.num_threads());
  }

  void RunItem(const AttentionPlan& plan, const AttentionLayer& layer,
               const AttentionWorkspace& layout, const AttentionWorkItem& item, int thread) const {
    auto* workspace = static_cast<std::byte*>(plan.workspace);
    auto* scratch =
        reinterpret_cast<float*>(workspace + layout.scratch + layout.scratch_each * thread);
    AttentionUnit unit = AttentionUnitOf(plan, layer, item);
    if (key_.phase == AttentionPhase::kPrefill) {
      loops_.prefill(unit, scratch);
      return;
    }
    if (item.merge < 0) {
      DecodeAllSplits(loops_, unit, scratch);
      return;
    }
    auto* partials = reinterpret_cast<float*>(workspace + layout.partials);
    const std::int64_t stride = unit.group_size * PartialFloats(unit.head_dim);
    unit.partial = partials + item.partial * stride;
    loops_.decode(unit, scratch);
    // The last unit to finish merges them all, in order of keys, whichever it is.
    if (!FinishesMerge(plan, item, reinterpret_cast<std::int32_t*>(workspace))) return;
    const std::int32_t first = plan.merge_start[item.merge];
    const std::int32_t count = plan.merge_start[item.merge + 1] - first;
    loops_.merge(unit, partials + first * stride, count, stride, scratch);
  }

  const AttentionKey key_;
  const AttentionAllLoops& loops_;
  ThreadTeam& team_;
};

}  // namespace

std::vector<std::unique_ptr<AttentionKernel>> MakeAttentionAllKernels(CpuIsa isa,
                                                                      bool full_precision,
                                                                      ThreadTeam& team) {
  const AttentionAllLoops& loops = AttentionLoopsFor(isa, full_precision);
  std::vector<std::unique_ptr<AttentionKernel>> kernels;
  for (const AttentionPhase phase : {AttentionPhase::kPrefill, AttentionPhase::kDecode}) {
    for (const DType kv_dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
      kernels.push_back(std::make_unique<AttentionAll>(phase, kv_dtype, loops, team));
    }
  }
  return kernels;
}

}  // namespace thresher
