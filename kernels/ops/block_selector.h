// Picks, for each block of queries and each head, the blocks of keys that are worth reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kernels/ops/attention_kernel.h"

namespace thresher {

// M[i, j] of query block i and key block j, for j ≤ i.
enum class BlockScore : std::uint8_t {
  kNone,  // forced blocks only
  // The mean of q·k · scale over the pairs with (a + b) mod stride = stride − 1, a and b the
  // offsets in their blocks, plus beta times the value term. Computed from sums of queries and of
  // keys.
  kAntidiagonal,
  // Softmax over the row's keys of such means of `stride` pairs, added up over the block
  // (XAttention).
  kAntidiagonalSoftmax,
  kExactMass,  // the mean dense softmax mass of the block: slow, for evaluation
  kRandom,     // seeded by (layer, head, i, j), for evaluation
};

// The value term of a key block, from x = ln(|v| + 1e-6) of each token: its maximum over groups of
// `stride` tokens, normalised, not below 0, then the mean over the groups.
enum class ValueTerm : std::uint8_t {
  kOff,
  kRaw,         // max(0, ln of the block's largest |v|), not normalised
  kCalibrated,  // (x − mean) / std of ValueStatistics
  kZScore,      // mean and std over all groups the step can see: changes with the chunk
  kCentred,     // x of v − mean_value, then as kCalibrated with the centred statistics
};

// A layer's statistics over calibration text, for the heads of this rank. Device memory.
struct ValueStatistics {
  const float* mean = nullptr;          // [num_kv_heads], of x
  const float* std = nullptr;           // [num_kv_heads]
  const float* mean_value = nullptr;    // [num_kv_heads, head_dim]
  const float* centred_mean = nullptr;  // [num_kv_heads], of x of v − mean_value
  const float* centred_std = nullptr;   // [num_kv_heads]
};

struct BlockSelectionRules {
  BlockScore score = BlockScore::kAntidiagonal;
  ValueTerm value_term = ValueTerm::kCalibrated;
  int stride = 16;       // 8 or 16
  int sink_blocks = 4;   // first blocks, always read
  int local_blocks = 4;  // last ones, the queries' own among them; at least 1
  // Forced blocks count against the budget (which is then at least their number).
  bool forced_in_budget = false;
  bool shares_group = false;  // one list for all heads of a KV head, by the mean of their scores
  // Instead of the budgets: the fewest blocks that hold this share of a row's scores; 0: budgets.
  float covered_mass = 0;
  std::uint64_t seed = 0;  // of kRandom
};

// Budgets of a step's query blocks, see SelectBlocks for their order.
struct BlockBudgets {
  std::span<const std::int32_t> query_block_start;  // [num_sequences + 1]
  // Blocks that each query block may read before the forced ones; kAllBlocks: every one.
  std::span<const std::int32_t> budget;  // [num_query_blocks]
  std::span<const float> beta;           // [num_sequences]
};

// What a selector's Run left: lists for the attention kernel, and what the lists came from.
struct BlockSelection {
  SelectBlocks lists;
  // M of the rows that were scored, [num_query_blocks, num_heads, score_stride]; device memory, for
  // evaluation. Rows that read all blocks were not scored.
  const float* scores = nullptr;
  int score_stride = 0;
};

// Thread rule and determinism as AttentionKernel. For kAntidiagonal and kNone the lists of a query
// block depend on its own 128 queries, the keys before them and the rules, not on how the prompt
// was cut into chunks at multiples of 128; ties go to the later block. Scores are f32, sums of keys
// are rounded to bf16 (so that a twin may store them). Not finite: ranked last.
class BlockSelector {
 public:
  virtual ~BlockSelector() = default;
  // Bytes that Run needs at most for batches no larger than `largest`, and budgets at most
  // `max_budget`.
  virtual std::size_t WorkspaceBytes(const AttentionBatch& largest,
                                     const BlockSelectionRules& rules, int max_budget) const = 0;
  // Once a layer, after the step's keys are in the cache. `plan` is the attention kernel's for the
  // same batch. Queries of a block that are not in this step (an unaligned chunk) do not count. The
  // selection lives in the workspace until the next Run. Allocates nothing. InvalidArgument naming
  // what disagrees, or if the workspace is too small.
  virtual absl::Status Run(const AttentionPlan& plan, const AttentionLayer& layer, int layer_index,
                           const BlockSelectionRules& rules, const BlockBudgets& budgets,
                           const ValueStatistics& statistics, DeviceBuffer& workspace,
                           Stream& stream, BlockSelection& selection) const = 0;
};

}  // namespace thresher
