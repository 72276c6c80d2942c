// Attention over the paged cache: plan once a step, run once a layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kernels/device/device.h"
#include "kernels/device/tensor_view.h"
#include "kernels/ops/kv_selection.h"
#include "kernels/ops/transformer_ops.h"

namespace thresher {

enum class AttentionMechanism : std::uint8_t {
  kAll,
  kAboveThreshold,
  kBlocks,
  kRanked,  // to judge others by: slow
};
enum class AttentionPhase : std::uint8_t { kPrefill, kDecode };

// The row of the kernel table that serves a group of queries.
struct AttentionKey {
  AttentionMechanism mechanism = AttentionMechanism::kAll;
  AttentionPhase phase = AttentionPhase::kPrefill;
  DType kv_dtype = DType::kBF16;
  int head_dim = 0;  // 0: the kernel takes any multiple of 8 up to 256
  friend bool operator==(const AttentionKey&, const AttentionKey&) = default;
};

// The queries of one group. Sequence s has query_start[s + 1] − query_start[s] queries, which are
// rows first_row[s] … of q; query j stands at position context_length[s] + j and sees every
// position up to its own.
struct AttentionBatch {
  int num_heads = 0;
  int num_kv_heads = 0;  // divides num_heads; head h reads KV head h / (num_heads / num_kv_heads)
  int head_dim = 0;
  int block_size = 0;                            // a multiple of 8
  std::span<const std::int32_t> query_start;     // [num_sequences + 1], ascending from 0
  std::span<const std::int32_t> first_row;       // [num_sequences]; empty: query_start
  std::span<const std::int32_t> context_length;  // [num_sequences]
  // Sequence s owns block_tables[block_table_start[s] …]; at least ceil(sequence length /
  // block_size).
  std::span<const std::int32_t> block_tables;
  std::span<const std::int32_t> block_table_start;  // [num_sequences]
  int num_sequences() const { return static_cast<int>(context_length.size()); }
  std::int32_t first_row_of(int sequence) const {
    return first_row.empty() ? query_start[sequence] : first_row[sequence];
  }
};

// A layer's tensors. Rows of q and out that belong to no query of the batch are left alone.
struct AttentionLayer {
  TensorView q;  // [num_rows, num_heads, head_dim] f32 or activation dtype
  KvCacheLayer cache;
  float scale = 0;  // multiplies q·k
  TensorView out;   // [num_rows, num_heads, head_dim], f32 or gemm_input dtype
  // Added to by the threshold and ranking kernels, [num_queries, num_kv_heads] in the order of
  // query_start; null: nobody asks. Device memory.
  ThresholdCounts* counts = nullptr;
  // Written by them, [num_queries, num_heads] in the order of query_start: keys above the head's
  // own threshold, or chosen for it, of sparse rows; others are left alone. Null: nobody asks.
  // Device memory.
  std::int32_t* survivors = nullptr;
};

// One unit of work: some rows of a sequence for one KV head, against a range of keys. A row here is
// a query and a head of the KV head's group: row r of a sequence is its query r / group_size and
// head kv_head · group_size + r % group_size.
struct AttentionWorkItem {
  std::int32_t sequence = 0;
  std::int32_t kv_head = 0;
  std::int32_t first_row = 0;
  std::int32_t num_rows = 0;
  std::int32_t first_key = 0;  // position
  std::int32_t num_keys = 0;   // the last row sees the last of them
  std::int32_t merge = -1;     // index into merge_start if these rows' keys are split, else −1
  std::int32_t partial = 0;    // slot of the workspace, if the keys are split
  // Of the blocks kernel: rows are the queries of this head alone, in one query block of the batch.
  std::int32_t head = -1;
  std::int32_t query_block = -1;
};

// Work items of a step, in the order in which they are dealt out; made by a kernel's Plan, read by
// its Run. Reused from step to step so that planning allocates only while it grows.
struct AttentionPlan {
  AttentionBatch batch;  // borrows the caller's arrays until the next Plan
  std::vector<AttentionWorkItem> items;
  // Partial results of merge m are the slots [merge_start[m], merge_start[m + 1]), in order of
  // keys.
  std::vector<std::int32_t> merge_start;
  std::int32_t num_blocks = 0;  // 1 + the largest block id in the tables
  std::int32_t num_rows = 0;    // 1 + the last row of q that a query has
  void* workspace = nullptr;    // the kernel's own
  // Plans in the same workspace whose keys are equal and not 0 are launched alike: a captured Run
  // of one carries out the other.
  std::uint64_t launch_key = 0;
};

// Thread rule: one caller at a time; Run uses all threads of the device. Bitwise deterministic, and
// bitwise equal for equal inputs whatever else is in the batch, the sequence's other queries
// included: the split of a row's keys is a function of its length alone and partials merge in
// order.
class AttentionKernel {
 public:
  virtual ~AttentionKernel() = default;
  virtual AttentionKey key() const = 0;
  // Bytes that Plan needs at most for batches no larger than `largest` in sequences, queries and
  // lengths. Asked once, at start-up.
  virtual std::size_t WorkspaceBytes(const AttentionBatch& largest) const = 0;
  // Once a step. InvalidArgument if the batch is inconsistent or the workspace too small.
  virtual absl::Status Plan(const AttentionBatch& batch, DeviceBuffer& workspace, Stream& stream,
                            AttentionPlan& plan) const = 0;
  // Once a layer. Allocates nothing, waits for nothing.
  virtual absl::Status Run(const AttentionPlan& plan, const AttentionLayer& layer,
                           const KvSelection& selection, Stream& stream) const = 0;
};

}  // namespace thresher
