#include "kernels/cpu/attention_all.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/attention_unit.h"
#include "kernels/device/shape_check.h"

namespace thresher {
namespace {

constexpr const char* kOp = "attention";

std::byte* AlignToLine(void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return static_cast<std::byte*>(memory) + (64 - address % 64) % 64;
}

absl::Status CheckLayer(const AttentionPlan& plan, const AttentionLayer& layer, DType kv_dtype) {
  const AttentionBatch& batch = plan.batch;
  absl::Status status =
      CheckTensor(kOp, "q", layer.q, {DType::kF32}, {kAnySize, batch.num_heads, batch.head_dim});
  if (status.ok()) {
    status = CheckTensor(kOp, "out", layer.out, {DType::kF32, DType::kBF16},
                         {layer.q.shape[0], batch.num_heads, batch.head_dim});
  }
  if (status.ok()) {
    status = CheckRange(kOp, "rows of q", plan.num_rows, 0, layer.q.shape[0]);
  }
  const TensorView& k = layer.cache.k;
  if (status.ok()) {
    status = CheckTensor(kOp, "cache.k", k, {kv_dtype},
                         {kAnySize, batch.num_kv_heads, batch.block_size, batch.head_dim});
  }
  if (status.ok()) {
    status = CheckTensor(kOp, "cache.v", layer.cache.v, {kv_dtype},
                         {k.shape[0], k.shape[1], k.shape[2], k.shape[3]});
  }
  if (status.ok()) {
    status = CheckRange(kOp, "block id", std::int64_t{plan.num_blocks} - 1, -1, k.shape[0] - 1);
  }
  return status;
}

AttentionUnit UnitOf(const AttentionPlan& plan, const AttentionLayer& layer,
                     const AttentionWorkItem& item) {
  const AttentionBatch& batch = plan.batch;
  const std::int64_t head_dim = batch.head_dim;
  AttentionUnit unit;
  unit.group_size = batch.num_heads / batch.num_kv_heads;
  unit.query_stride = batch.num_heads * head_dim;
  const std::int64_t at = batch.first_row_of(item.sequence) * unit.query_stride +
                          std::int64_t{item.kv_head} * unit.group_size * head_dim;
  unit.q = layer.q.as<float>() + at;
  unit.out = static_cast<std::byte*>(layer.out.data) + at * SizeOf(layer.out.dtype);
  unit.out_dtype = layer.out.dtype;
  unit.head_dim = batch.head_dim;
  unit.scale = layer.scale;
  unit.first_row = item.first_row;
  unit.num_rows = item.num_rows;
  unit.context_length = batch.context_length[item.sequence];
  unit.first_key = item.first_key;
  unit.num_keys = item.num_keys;
  unit.kv_dtype = layer.cache.k.dtype;
  unit.block_size = batch.block_size;
  const std::int64_t head_bytes = batch.block_size * head_dim * SizeOf(unit.kv_dtype);
  unit.k = static_cast<const std::byte*>(layer.cache.k.data) + item.kv_head * head_bytes;
  unit.v = static_cast<const std::byte*>(layer.cache.v.data) + item.kv_head * head_bytes;
  unit.block_bytes = batch.num_kv_heads * head_bytes;
  unit.block_table = batch.block_tables.data() + batch.block_table_start[item.sequence];
  return unit;
}

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
    if (layout.total > workspace.num_bytes()) {
      return absl::InvalidArgumentError(std::string(kOp) + ": the workspace has " +
                                        std::to_string(workspace.num_bytes()) +
                                        " bytes, this batch needs " + std::to_string(layout.total));
    }
    plan.workspace = AlignToLine(workspace.get());
    std::memset(plan.workspace, 0, layout.partials);
    return absl::OkStatus();
  }

  absl::Status Run(const AttentionPlan& plan, const AttentionLayer& layer, const KvSelection&,
                   Stream&) const override {
    absl::Status status = CheckLayer(plan, layer, key_.kv_dtype);
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
    AttentionUnit unit = UnitOf(plan, layer, item);
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

const AttentionAllLoops& LoopsFor(CpuIsa isa, bool full_precision) {
  if (isa == CpuIsa::kAvx2) return AttentionAllLoopsAvx2();
  if (isa == CpuIsa::kAvx512 || full_precision) return AttentionAllLoopsAvx512();
  return AttentionAllLoopsAvx512Bf16();
}

}  // namespace

std::vector<std::unique_ptr<AttentionKernel>> MakeAttentionAllKernels(CpuIsa isa,
                                                                      bool full_precision,
                                                                      ThreadTeam& team) {
  const AttentionAllLoops& loops = LoopsFor(isa, full_precision);
  std::vector<std::unique_ptr<AttentionKernel>> kernels;
  for (const AttentionPhase phase : {AttentionPhase::kPrefill, AttentionPhase::kDecode}) {
    for (const DType kv_dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
      kernels.push_back(std::make_unique<AttentionAll>(phase, kv_dtype, loops, team));
    }
  }
  return kernels;
}

}  // namespace thresher
