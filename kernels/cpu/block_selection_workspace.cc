#include "kernels/cpu/block_selection_workspace.h"

#include <algorithm>

namespace thresher {
namespace {

// Hands out ranges of bytes, each at a multiple of 64.
class Ranges final {
 public:
  std::size_t Take(std::int64_t bytes) {
    const std::size_t at = end_;
    end_ += (static_cast<std::size_t>(bytes) + 63) / 64 * 64;
    return at;
  }
  std::size_t end() const { return end_; }

 private:
  std::size_t end_ = 0;
};

}  // namespace

bool UsesGroupSums(BlockScore score) {
  return score == BlockScore::kAntidiagonalSoftmax || score == BlockScore::kExactMass;
}

int GroupStride(const BlockSelectionRules& rules) {
  return rules.score == BlockScore::kExactMass ? 1 : rules.stride;
}

BlockSelectionShape BlockSelectionShapeOf(const AttentionBatch& batch,
                                          const BlockSelectionRules& rules,
                                          std::int64_t num_query_blocks, int max_budget,
                                          int num_threads) {
  BlockSelectionShape shape;
  shape.num_heads = batch.num_heads;
  shape.num_kv_heads = batch.num_kv_heads;
  shape.head_dim = batch.head_dim;
  shape.num_query_blocks = num_query_blocks;
  for (int sequence = 0; sequence < batch.num_sequences(); ++sequence) {
    const int length = batch.context_length[sequence] + batch.query_start[sequence + 1] -
                       batch.query_start[sequence];
    shape.longest = std::max(shape.longest, (length + kSelectionBlock - 1) / kSelectionBlock);
  }
  const std::int64_t most = rules.covered_mass > 0 ? shape.longest
                                                   : std::int64_t{std::max(0, max_budget)} +
                                                         rules.sink_blocks + rules.local_blocks;
  shape.capacity = static_cast<int>(std::min<std::int64_t>(most, shape.longest));
  shape.num_threads = num_threads;
  return shape;
}

BlockSelectionLayout LayOutBlockSelection(const BlockSelectionShape& shape,
                                          const BlockSelectionRules& rules) {
  constexpr std::int64_t kFloat = sizeof(float);
  const std::int64_t rows = shape.num_query_blocks * shape.num_heads;
  const std::int64_t longest = shape.longest;
  const std::int64_t length = std::int64_t{rules.stride} * shape.head_dim;
  const bool uses_sums = rules.score == BlockScore::kAntidiagonal;
  const bool uses_groups = UsesGroupSums(rules.score);
  BlockSelectionLayout layout;
  Ranges ranges;
  layout.list_length = ranges.Take(rows * static_cast<std::int64_t>(sizeof(std::int32_t)));
  layout.blocks =
      ranges.Take(rows * shape.capacity * static_cast<std::int64_t>(sizeof(std::uint16_t)));
  layout.scores = ranges.Take(rows * longest * kFloat);
  const std::int64_t key_blocks = uses_sums ? shape.num_kv_heads * longest : 0;
  layout.key_sums =
      ranges.Take(key_blocks * length * static_cast<std::int64_t>(sizeof(std::uint16_t)));
  layout.value_groups = ranges.Take(key_blocks * kSelectionBlock / rules.stride * kFloat);
  layout.value_terms = ranges.Take(key_blocks * kFloat);
  layout.scratch = ranges.end();

  Ranges scratch;
  const std::int64_t group_size = shape.num_heads / shape.num_kv_heads;
  layout.query_sums = scratch.Take(uses_sums ? group_size * length * kFloat : 0);
  layout.squares = scratch.Take(kSelectionBlock * kFloat);
  layout.order = scratch.Take(longest * static_cast<std::int64_t>(sizeof(std::uint64_t)));
  layout.is_chosen = scratch.Take(longest);
  layout.keys = scratch.Take(uses_groups ? kSelectionBlock * shape.head_dim * kFloat : 0);
  const std::int64_t groups = uses_groups ? kSelectionBlock / GroupStride(rules) : 0;
  layout.group_largest = scratch.Take(groups * longest * kFloat);
  layout.group_sum = scratch.Take(groups * longest * kFloat);
  layout.scratch_each = scratch.end();
  layout.total = layout.scratch + layout.scratch_each * shape.num_threads;
  return layout;
}

}  // namespace thresher
