#include "kernels/cuda/attention/cuda_attention_plan.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/cpu/attention_plan.h"
#include "kernels/cuda/attention/all/config.h"
#include "kernels/cuda/cuda_status.h"

namespace thresher {
namespace {

constexpr std::size_t kAlignment = 256;

std::int64_t RoundUp(std::int64_t count) { return CountOfStep(PlanStep(count)); }

CudaPlanSize Rounded(const CudaPlanSize& size) {
  return {.items = RoundUp(size.items),
          .sequences = RoundUp(size.sequences),
          .merges = RoundUp(size.merges),
          .blocks = RoundUp(size.blocks),
          .partials = RoundUp(size.partials)};
}

int QueryLength(const AttentionBatch& batch, int sequence) {
  return batch.query_start[sequence + 1] - batch.query_start[sequence];
}

int LongestSequence(const AttentionBatch& batch) {
  int longest = 0;
  for (int i = 0; i < batch.num_sequences(); ++i) {
    longest = std::max(longest, batch.context_length[i] + QueryLength(batch, i));
  }
  return longest;
}

// The heads of a group are dealt in parts of at most kDecodeHeads.
int PartsOfItem(const AttentionBatch& batch) {
  const int group_size = batch.num_heads / batch.num_kv_heads;
  return batch.num_kv_heads * ((group_size + kDecodeHeads - 1) / kDecodeHeads);
}

void PlanRowTiles(AttentionPlan& plan) {
  const AttentionBatch& batch = plan.batch;
  const int group_size = batch.num_heads / batch.num_kv_heads;
  for (int sequence = 0; sequence < batch.num_sequences(); ++sequence) {
    const int num_rows = QueryLength(batch, sequence) * group_size;
    for (int first = 0; first < num_rows; first += kGpuPrefillRows) {
      AttentionWorkItem item;
      item.sequence = sequence;
      item.first_row = first;
      item.num_rows = std::min(kGpuPrefillRows, num_rows - first);
      item.num_keys = batch.context_length[sequence] + (first + item.num_rows - 1) / group_size + 1;
      for (item.kv_head = 0; item.kv_head < batch.num_kv_heads; ++item.kv_head) {
        plan.items.push_back(item);
      }
    }
  }
  // Blocks of threads start in order of items, and the last ones to end should be short.
  std::ranges::stable_sort(plan.items, [](const AttentionWorkItem& a, const AttentionWorkItem& b) {
    return a.num_keys > b.num_keys;
  });
}

void PlanQueries(AttentionPlan& plan) {
  const AttentionBatch& batch = plan.batch;
  const int group_size = batch.num_heads / batch.num_kv_heads;
  for (int sequence = 0; sequence < batch.num_sequences(); ++sequence) {
    for (int query = 0; query < QueryLength(batch, sequence); ++query) {
      AttentionWorkItem item;
      item.sequence = sequence;
      item.first_row = query * group_size;
      item.num_rows = group_size;
      item.num_keys = batch.context_length[sequence] + query + 1;
      plan.items.push_back(item);
    }
  }
}

void PlanKeyRanges(int warps, AttentionPlan& plan) {
  const AttentionBatch& batch = plan.batch;
  PlanQueries(plan);
  std::int64_t total_keys = 0;
  for (const AttentionWorkItem& row : plan.items) total_keys += row.num_keys;
  total_keys *= PartsOfItem(batch);
  const std::size_t num_rows = plan.items.size();
  for (std::size_t i = 0; i < num_rows; ++i) {
    AttentionWorkItem item = plan.items[i];
    const int num_keys = item.num_keys;
    const int split = GpuDecodeSplitSize(num_keys);
    const int num_splits = (num_keys + split - 1) / split;
    const bool joins = JoinsFours(split, total_keys, warps);
    const int unit = joins ? kMergeFour * split : split;
    if (num_keys > unit) {
      item.merge = static_cast<std::int32_t>(plan.merge_start.size()) - 1;
      item.partial = plan.merge_start.back();
      plan.merge_start.push_back(item.partial + num_splits);
    }
    for (int first = 0; first < num_keys; first += unit) {
      item.first_key = first;
      item.num_keys = std::min(unit, num_keys - first);
      if (item.merge >= 0) {
        item.partial = plan.merge_start[static_cast<std::size_t>(item.merge)] + first / split;
      }
      plan.items.push_back(item);
    }
  }
  plan.items.erase(plan.items.begin(), plan.items.begin() + static_cast<std::ptrdiff_t>(num_rows));
  // Blocks of threads start in order of items, and the last ones to end should be short.
  const auto longer = [](const AttentionWorkItem& a, const AttentionWorkItem& b) {
    if (a.num_keys != b.num_keys) return a.num_keys > b.num_keys;
    return a.sequence != b.sequence ? a.sequence < b.sequence : a.partial < b.partial;
  };
  if (!std::ranges::is_sorted(plan.items, longer)) std::ranges::sort(plan.items, longer);
}

DecodeItem DecodeItemOf(const AttentionWorkItem& item, const AttentionBatch& batch) {
  const int query = item.first_row / item.num_rows;
  return {.row = batch.first_row_of(item.sequence) + query,
          .table_entry = batch.block_table_start[item.sequence] + item.first_key / batch.block_size,
          .first_key = item.first_key,
          .num_keys = item.num_keys,
          .split_keys = GpuDecodeSplitSize(batch.context_length[item.sequence] + query + 1),
          .merge = item.merge,
          .partial = item.partial};
}

}  // namespace

void PlanItems(AttentionCut cut, int warps, AttentionPlan& plan) {
  ResetPlan(plan);
  if (cut == AttentionCut::kRowTiles) return PlanRowTiles(plan);
  if (cut == AttentionCut::kKeyRanges) return PlanKeyRanges(warps, plan);
  PlanQueries(plan);
}

CudaAttentionLayout LayOut(const CudaPlanSize& size, const AttentionBatch& batch) {
  CudaAttentionLayout layout;
  std::size_t end = 0;
  const auto take = [&](std::int64_t count, std::size_t each) {
    const std::size_t offset = end;
    end = (end + static_cast<std::size_t>(count) * each + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  };
  layout.items = take(size.items, std::max(sizeof(AttentionWorkItem), sizeof(DecodeItem)));
  layout.sequences = take(size.sequences, sizeof(SequenceLaunch));
  layout.merge_start = take(size.merges + 1, sizeof(std::int32_t));
  layout.block_tables = take(size.blocks, sizeof(std::int32_t));
  layout.uploaded = end;
  layout.counters = take(size.merges * PartsOfItem(batch) * kMergeCounters, sizeof(std::int32_t));
  layout.partials =
      take(size.partials * batch.num_heads * PartialStride(batch.head_dim), sizeof(float));
  layout.total = end;
  return layout;
}

CudaPlanSize SizeOf(const AttentionPlan& plan) {
  return Rounded({.items = static_cast<std::int64_t>(plan.items.size()),
                  .sequences = plan.batch.num_sequences(),
                  .merges = static_cast<std::int64_t>(plan.merge_start.size()) - 1,
                  .blocks = static_cast<std::int64_t>(plan.batch.block_tables.size()),
                  .partials = plan.merge_start.back()});
}

std::uint64_t LaunchKeyOf(const CudaPlanSize& size) {
  std::uint64_t key = 1;
  for (const std::int64_t count :
       {size.items, size.sequences, size.merges, size.blocks, size.partials}) {
    key = key << 8 | static_cast<std::uint64_t>(PlanStep(count));  // at most 4 · 64
  }
  return key;
}

CudaPlanSize LargestSize(AttentionCut cut, const AttentionBatch& largest) {
  const std::int64_t rows = largest.query_start.back(), sequences = largest.num_sequences();
  const int longest = LongestSequence(largest);
  CudaPlanSize size = {.items = rows, .sequences = sequences};
  const std::int64_t blocks = (longest + largest.block_size - 1) / largest.block_size;
  size.blocks = std::max<std::int64_t>(sequences * blocks,
                                       static_cast<std::int64_t>(largest.block_tables.size()));
  if (cut == AttentionCut::kRowTiles) {
    const std::int64_t group_size = largest.num_heads / largest.num_kv_heads;
    size.items = (rows * group_size / kGpuPrefillRows + sequences) * largest.num_kv_heads;
  } else if (cut == AttentionCut::kKeyRanges) {
    const std::int64_t splits = std::min(kMaxDecodeSplits, (longest + 127) / 128);
    size.items = rows * splits;
    size.merges = splits > 1 ? rows : 0;
    size.partials = splits > 1 ? rows * splits : 0;
  }
  return Rounded(size);
}

absl::Status PlanUploader::Upload(AttentionCut cut, const CudaAttentionLayout& layout,
                                  DeviceBuffer& workspace, AttentionPlan& plan,
                                  cudaStream_t stream) {
  if (layout.total > workspace.num_bytes()) {
    return absl::InvalidArgumentError("attention: the workspace has " +
                                      std::to_string(workspace.num_bytes()) +
                                      " bytes, this batch needs " + std::to_string(layout.total));
  }
  const AttentionBatch& batch = plan.batch;
  packed_.assign(layout.uploaded, std::byte{0});
  const auto put = [&](std::size_t offset, const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    if (!bytes.empty()) std::memcpy(packed_.data() + offset, bytes.data(), bytes.size());
  };
  if (cut == AttentionCut::kKeyRanges) {
    auto* items = reinterpret_cast<DecodeItem*>(packed_.data() + layout.items);
    for (const AttentionWorkItem& item : plan.items) *items++ = DecodeItemOf(item, batch);
  } else {
    put(layout.items, plan.items);
  }
  put(layout.merge_start, plan.merge_start);
  put(layout.block_tables, batch.block_tables);
  auto* sequences = reinterpret_cast<SequenceLaunch*>(packed_.data() + layout.sequences);
  for (int i = 0; i < batch.num_sequences(); ++i) {
    sequences[i] = {.first_row = batch.first_row_of(i),
                    .query_length = QueryLength(batch, i),
                    .context_length = batch.context_length[i],
                    .block_table_start = batch.block_table_start[i]};
  }
  plan.workspace = workspace.get();
  absl::Status status = ring_.Upload(packed_, workspace.get(), stream);
  if (!status.ok() || layout.partials == layout.counters) return status;
  return CudaStatus(cudaMemsetAsync(workspace.bytes_at(static_cast<std::int64_t>(layout.counters)),
                                    0, layout.partials - layout.counters, stream),
                    "zeroing attention counters");
}

}  // namespace thresher
