#include "kernels/cpu/attention_plan.h"

#include <algorithm>
#include <string>

#include "kernels/cpu/attention_all.h"
#include "kernels/cpu/attention_unit.h"
#include "kernels/device/shape_check.h"

namespace thresher {
namespace {

constexpr const char* kOp = "attention";
constexpr int kSplitKeys = 192;  // aimed at; with fewer a merge costs more than the balance gives
constexpr std::size_t kLine = 64;

std::size_t RoundUpToLine(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

absl::Status CheckShape(const AttentionBatch& batch) {
  absl::Status status = CheckRange(kOp, "head_dim", batch.head_dim, 8, 256);
  if (status.ok()) status = CheckCount(kOp, "head_dim % 8", batch.head_dim % 8, 0);
  if (status.ok()) status = CheckRange(kOp, "num_kv_heads", batch.num_kv_heads, 1, 1 << 20);
  if (status.ok()) status = CheckRange(kOp, "num_heads", batch.num_heads, 1, 1 << 20);
  if (status.ok()) {
    status = CheckCount(kOp, "num_heads % num_kv_heads", batch.num_heads % batch.num_kv_heads, 0);
  }
  if (status.ok()) status = CheckRange(kOp, "block_size", batch.block_size, 8, 1 << 20);
  if (status.ok()) status = CheckCount(kOp, "block_size % 8", batch.block_size % 8, 0);
  return status;
}

absl::Status CheckSequence(const AttentionBatch& batch, int sequence) {
  constexpr std::int64_t kLongest = 1 << 24;
  const std::int64_t num_queries =
      std::int64_t{batch.query_start[sequence + 1]} - batch.query_start[sequence];
  const std::int64_t context = batch.context_length[sequence];
  absl::Status status = CheckRange(kOp, "query length", num_queries, 0, kLongest);
  if (status.ok()) {
    status = CheckRange(kOp, "context_length", context, 0, kLongest - num_queries);
  }
  if (!status.ok()) return status;
  status = CheckRange(kOp, "first_row", batch.first_row_of(sequence), 0, kLongest);
  if (!status.ok()) return status;
  const std::int64_t blocks = (context + num_queries + batch.block_size - 1) / batch.block_size;
  const std::int64_t start = batch.block_table_start[sequence];
  return CheckRange(kOp, "block_table_start", start, 0,
                    static_cast<std::int64_t>(batch.block_tables.size()) - blocks);
}

// 1 + the largest block id that the sequences use; InvalidArgument if one is negative.
std::int32_t NumBlocks(const AttentionBatch& batch) {
  std::int32_t largest = -1;
  for (int sequence = 0; sequence < batch.num_sequences(); ++sequence) {
    const int length = batch.context_length[sequence] + batch.query_start[sequence + 1] -
                       batch.query_start[sequence];
    const auto first = batch.block_tables.begin() + batch.block_table_start[sequence];
    const int blocks = (length + batch.block_size - 1) / batch.block_size;
    for (auto block = first; block != first + blocks; ++block) largest = std::max(largest, *block);
  }
  return largest + 1;
}

std::int32_t NumRows(const AttentionBatch& batch) {
  std::int32_t rows = 0;
  for (int sequence = 0; sequence < batch.num_sequences(); ++sequence) {
    rows = std::max(rows, batch.first_row_of(sequence) + batch.query_start[sequence + 1] -
                              batch.query_start[sequence]);
  }
  return rows;
}

}  // namespace

int DecodeSplitSize(int num_keys) {
  const int splits = std::min(kMaxSplits, (num_keys + kSplitKeys - 1) / kSplitKeys);
  const int even = (num_keys + splits - 1) / splits;
  return (even + kKeyTile - 1) / kKeyTile * kKeyTile;
}

int NumDecodeSplits(int num_keys) {
  const int size = DecodeSplitSize(num_keys);
  return (num_keys + size - 1) / size;
}

absl::Status CheckAttentionBatch(const AttentionBatch& batch) {
  absl::Status status = CheckShape(batch);
  const std::int64_t n = batch.num_sequences();
  if (status.ok()) {
    status = CheckCount(kOp, "query_start.size",
                        static_cast<std::int64_t>(batch.query_start.size()), n + 1);
  }
  if (status.ok()) status = CheckCount(kOp, "query_start[0]", batch.query_start[0], 0);
  if (status.ok() && !batch.first_row.empty()) {
    status =
        CheckCount(kOp, "first_row.size", static_cast<std::int64_t>(batch.first_row.size()), n);
  }
  if (status.ok()) {
    status = CheckCount(kOp, "block_table_start.size",
                        static_cast<std::int64_t>(batch.block_table_start.size()), n);
  }
  for (int sequence = 0; sequence < n && status.ok(); ++sequence) {
    status = CheckSequence(batch, sequence);
  }
  if (!status.ok()) return status;
  const auto negative = std::find_if(batch.block_tables.begin(), batch.block_tables.end(),
                                     [](std::int32_t block) { return block < 0; });
  if (negative == batch.block_tables.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(std::string(kOp) + ": block_tables[" +
                                    std::to_string(negative - batch.block_tables.begin()) +
                                    "] is " + std::to_string(*negative) + ", expected at least 0");
}

void ResetPlan(AttentionPlan& plan) {
  plan.num_blocks = NumBlocks(plan.batch);
  plan.num_rows = NumRows(plan.batch);
  plan.items.clear();
  plan.merge_start.assign(1, 0);
}

void PlanPrefillUnits(AttentionPlan& plan) {
  const AttentionBatch& batch = plan.batch;
  const int group_size = batch.num_heads / batch.num_kv_heads;
  ResetPlan(plan);
  for (int sequence = 0; sequence < batch.num_sequences(); ++sequence) {
    const int num_queries = batch.query_start[sequence + 1] - batch.query_start[sequence];
    const int num_rows = num_queries * group_size;
    for (int row = 0; row < num_rows; row += kPrefillRows) {
      AttentionWorkItem item;
      item.sequence = sequence;
      item.first_row = row;
      item.num_rows = std::min(kPrefillRows, num_rows - row);
      item.num_keys = batch.context_length[sequence] + (row + item.num_rows - 1) / group_size + 1;
      for (item.kv_head = 0; item.kv_head < batch.num_kv_heads; ++item.kv_head) {
        plan.items.push_back(item);
      }
    }
  }
  std::sort(plan.items.begin(), plan.items.end(),
            [](const AttentionWorkItem& a, const AttentionWorkItem& b) {
              if (a.num_keys != b.num_keys) return a.num_keys > b.num_keys;
              if (a.sequence != b.sequence) return a.sequence < b.sequence;
              if (a.first_row != b.first_row) return a.first_row < b.first_row;
              return a.kv_head < b.kv_head;
            });
}

void PlanDecodeUnits(AttentionPlan& plan) {
  const AttentionBatch& batch = plan.batch;
  const int group_size = batch.num_heads / batch.num_kv_heads;
  ResetPlan(plan);
  for (int sequence = 0; sequence < batch.num_sequences(); ++sequence) {
    const int num_queries = batch.query_start[sequence + 1] - batch.query_start[sequence];
    for (int query = 0; query < num_queries; ++query) {
      const int num_keys = batch.context_length[sequence] + query + 1;
      const int split_size = DecodeSplitSize(num_keys);
      for (int kv_head = 0; kv_head < batch.num_kv_heads; ++kv_head) {
        AttentionWorkItem item;
        item.sequence = sequence;
        item.kv_head = kv_head;
        item.first_row = query * group_size;
        item.num_rows = group_size;
        // Many queries are units enough: each runs its splits one after the other.
        if (num_queries > 1) {
          item.num_keys = num_keys;
          plan.items.push_back(item);
          continue;
        }
        const bool split = num_keys > split_size;
        if (split) {
          item.merge = static_cast<std::int32_t>(plan.merge_start.size()) - 1;
          item.partial = plan.merge_start.back();
          plan.merge_start.push_back(item.partial + NumDecodeSplits(num_keys));
        }
        for (item.first_key = 0; item.first_key < num_keys; item.first_key += split_size) {
          item.num_keys = std::min(split_size, num_keys - item.first_key);
          plan.items.push_back(item);
          if (split) ++item.partial;
        }
      }
    }
  }
}

AttentionWorkspace LayOutWorkspace(AttentionPhase phase, const AttentionBatch& batch,
                                   std::int64_t num_merges, std::int64_t num_partials,
                                   int num_threads) {
  const int group_size = batch.num_heads / batch.num_kv_heads;
  AttentionWorkspace layout;
  layout.partials = RoundUpToLine(num_merges * sizeof(std::int32_t));
  layout.scratch = layout.partials + RoundUpToLine(sizeof(float) * num_partials * group_size *
                                                   PartialFloats(batch.head_dim));
  const std::int64_t scratch_floats =
      phase == AttentionPhase::kPrefill
          ? PrefillScratchFloats(batch.head_dim)
          : DecodeScratchFloats(batch.head_dim, group_size) +
                kMaxSplits * group_size * PartialFloats(batch.head_dim);
  layout.scratch_each = RoundUpToLine(sizeof(float) * scratch_floats);
  layout.total = layout.scratch + layout.scratch_each * num_threads + kLine;
  return layout;
}

PartialCounts MostPartials(const AttentionBatch& largest) {
  PartialCounts counts;
  for (int sequence = 0; sequence < largest.num_sequences(); ++sequence) {
    const std::int64_t rows = largest.num_kv_heads;  // only a sequence's single query is shared out
    const std::int64_t length = largest.context_length[sequence] +
                                largest.query_start[sequence + 1] - largest.query_start[sequence];
    if (length <= kSplitKeys) continue;
    counts.merges += rows;
    counts.partials +=
        rows * std::min<std::int64_t>(kMaxSplits, (length + kSplitKeys - 1) / kSplitKeys);
  }
  return counts;
}

}  // namespace thresher
