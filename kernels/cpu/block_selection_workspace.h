// What a block selection keeps in its workspace, and where.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/ops/block_selector.h"

namespace thresher {

// Sizes of a step's selection, or of the largest one.
struct BlockSelectionShape {
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  std::int64_t num_query_blocks = 0;
  int longest = 0;   // blocks of the longest sequence
  int capacity = 0;  // blocks of the longest list
  int num_threads = 0;
};

// max_budget: the largest budget, kAllBlocks left out.
BlockSelectionShape BlockSelectionShapeOf(const AttentionBatch& batch,
                                          const BlockSelectionRules& rules,
                                          std::int64_t num_query_blocks, int max_budget,
                                          int num_threads);

// Whether the scores need groups of queries against groups of keys, and of how many tokens.
bool UsesGroupSums(BlockScore score);
int GroupStride(const BlockSelectionRules& rules);

// Offsets in bytes, multiples of 64. Keys and values are those of one sequence at a time.
struct BlockSelectionLayout {
  std::size_t list_length = 0;   // i32 [query blocks, heads]
  std::size_t blocks = 0;        // u16 [query blocks, heads, capacity]
  std::size_t scores = 0;        // f32 [query blocks, heads, longest]
  std::size_t key_sums = 0;      // bf16 [KV heads, longest, stride · head_dim]
  std::size_t value_groups = 0;  // f32 [KV heads, longest, kSelectionBlock / stride]
  std::size_t value_terms = 0;   // f32 [KV heads, longest]
  std::size_t scratch = 0;       // one for each thread
  std::size_t scratch_each = 0;
  std::size_t total = 0;
  // Within a thread's scratch.
  std::size_t query_sums = 0;     // f32 [heads of a group, stride · head_dim]
  std::size_t squares = 0;        // f32 [kSelectionBlock]
  std::size_t order = 0;          // u64 [longest]
  std::size_t is_chosen = 0;      // u8 [longest]
  std::size_t keys = 0;           // f32 [kSelectionBlock, head_dim]
  std::size_t group_largest = 0;  // f32 [kSelectionBlock / stride, longest]
  std::size_t group_sum = 0;      // f32 [kSelectionBlock / stride, longest]
};
BlockSelectionLayout LayOutBlockSelection(const BlockSelectionShape& shape,
                                          const BlockSelectionRules& rules);

}  // namespace thresher
