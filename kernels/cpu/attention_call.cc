#include "kernels/cpu/attention_call.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>

#include "kernels/cpu/attention_all.h"
#include "kernels/cpu/parallel.h"
#include "kernels/device/shape_check.h"

namespace thresher {
namespace {

constexpr const char* kOp = "attention";

std::byte* AlignToLine(void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return static_cast<std::byte*>(memory) + (64 - address % 64) % 64;
}

}  // namespace

absl::Status CheckAttentionCache(const AttentionPlan& plan, const KvCacheLayer& cache,
                                 DType kv_dtype) {
  const AttentionBatch& batch = plan.batch;
  const TensorView& k = cache.k;
  absl::Status status =
      CheckTensor(kOp, "cache.k", k, {kv_dtype},
                  {kAnySize, batch.num_kv_heads, batch.block_size, batch.head_dim});
  if (status.ok()) {
    status = CheckTensor(kOp, "cache.v", cache.v, {kv_dtype},
                         {k.shape[0], k.shape[1], k.shape[2], k.shape[3]});
  }
  if (status.ok()) {
    status = CheckRange(kOp, "block id", std::int64_t{plan.num_blocks} - 1, -1, k.shape[0] - 1);
  }
  return status;
}

absl::Status CheckAttentionLayer(const AttentionPlan& plan, const AttentionLayer& layer,
                                 DType kv_dtype, DType activation) {
  const AttentionBatch& batch = plan.batch;
  absl::Status status = CheckTensor(kOp, "q", layer.q, {DType::kF32, activation},
                                    {kAnySize, batch.num_heads, batch.head_dim});
  if (status.ok()) {
    status = CheckTensor(kOp, "out", layer.out, {DType::kF32, DType::kBF16},
                         {layer.q.shape[0], batch.num_heads, batch.head_dim});
  }
  if (status.ok()) {
    status = CheckRange(kOp, "rows of q", plan.num_rows, 0, layer.q.shape[0]);
  }
  if (status.ok()) status = CheckAttentionCache(plan, layer.cache, kv_dtype);
  return status;
}

AttentionUnit AttentionUnitOf(const AttentionPlan& plan, const AttentionLayer& layer,
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

absl::Status TakeAttentionWorkspace(const DeviceBuffer& workspace, std::size_t bytes,
                                    AttentionPlan& plan) {
  if (bytes > workspace.num_bytes()) {
    return absl::InvalidArgumentError(std::string(kOp) + ": the workspace has " +
                                      std::to_string(workspace.num_bytes()) +
                                      " bytes, this batch needs " + std::to_string(bytes));
  }
  plan.workspace = AlignToLine(workspace.get());
  return absl::OkStatus();
}

const AttentionAllLoops& AttentionLoopsFor(CpuIsa isa, bool full_precision) {
  if (isa == CpuIsa::kAvx2) return AttentionAllLoopsAvx2();
  if (isa == CpuIsa::kAvx512 || full_precision) return AttentionAllLoopsAvx512();
  return AttentionAllLoopsAvx512Bf16();
}

bool IsSmall(const AttentionPlan& plan) {
  std::int64_t work = 0;
  for (const AttentionWorkItem& item : plan.items) {
    work += std::int64_t{item.num_rows} * item.num_keys * plan.batch.head_dim / 4;
    if (work >= ThreadTeam::kSerialWork) return false;
  }
  return true;
}

bool FinishesMerge(const AttentionPlan& plan, const AttentionWorkItem& item,
                   std::int32_t* counters) {
  const std::int32_t count = plan.merge_start[item.merge + 1] - plan.merge_start[item.merge];
  std::atomic_ref<std::int32_t> finished(counters[item.merge]);
  if (finished.fetch_add(1, std::memory_order_acq_rel) + 1 < count) return false;
  finished.store(0, std::memory_order_relaxed);
  return true;
}

void DecodeAllSplits(const AttentionAllLoops& loops, AttentionUnit unit, float* scratch) {
  const int num_keys = unit.num_keys, split_size = DecodeSplitSize(num_keys);
  if (num_keys <= split_size) return loops.decode(unit, scratch);
  float* const partials = scratch + DecodeScratchFloats(unit.head_dim, unit.group_size);
  const std::int64_t stride = unit.group_size * PartialFloats(unit.head_dim);
  int count = 0;
  for (unit.first_key = 0; unit.first_key < num_keys; unit.first_key += split_size, ++count) {
    unit.num_keys = std::min(split_size, num_keys - unit.first_key);
    unit.partial = partials + count * stride;
    loops.decode(unit, scratch);
  }
  loops.merge(unit, partials, count, stride, scratch);
}

}  // namespace thresher
