#include "kernels/cpu/attention_all.h"

#include <algorithm>
#include <atomic>
#include <cstring>

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

  absl::Status Run(const AttentionPlan& plan, const AttentionLayer& layer, const KvSelection&,
                   Stream&) const override {
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

  // Whether all units together take less than a fork. A key costs a row about head_dim / 4 of the
  // elements that ThreadTeam counts in (two FMAs each, sixteen at a time).
  static bool IsSmall(const AttentionPlan& plan) {
    std::int64_t work = 0;
    for (const AttentionWorkItem& item : plan.items) {
      work += std::int64_t{item.num_rows} * item.num_keys * plan.batch.head_dim / 4;
      if (work >= ThreadTeam::kSerialWork) return false;
    }
    return true;
  }

  // All keys of a row in one unit, cut and merged as they are in several: the same bits.
  void RunSplits(AttentionUnit unit, float* scratch) const {
    const int num_keys = unit.num_keys, split_size = DecodeSplitSize(num_keys);
    if (num_keys <= split_size) return loops_.decode(unit, scratch);
    float* const partials = scratch + DecodeScratchFloats(unit.head_dim, unit.group_size);
    const std::int64_t stride = unit.group_size * PartialFloats(unit.head_dim);
    int count = 0;
    for (unit.first_key = 0; unit.first_key < num_keys; unit.first_key += split_size, ++count) {
      unit.num_keys = std::min(split_size, num_keys - unit.first_key);
      unit.partial = partials + count * stride;
      loops_.decode(unit, scratch);
    }
    loops_.merge(unit, partials, count, stride, scratch);
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
      RunSplits(unit, scratch);
      return;
    }
    auto* partials = reinterpret_cast<float*>(workspace + layout.partials);
    const std::int64_t stride = unit.group_size * PartialFloats(unit.head_dim);
    unit.partial = partials + item.partial * stride;
    loops_.decode(unit, scratch);
    // The last unit to finish merges them all, in order of keys, whichever it is; and leaves the
    // counter at zero for the next layer.
    const std::int32_t first = plan.merge_start[item.merge];
    const std::int32_t count = plan.merge_start[item.merge + 1] - first;
    std::atomic_ref<std::int32_t> finished(reinterpret_cast<std::int32_t*>(workspace)[item.merge]);
    if (finished.fetch_add(1, std::memory_order_acq_rel) + 1 < count) return;
    finished.store(0, std::memory_order_relaxed);
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
