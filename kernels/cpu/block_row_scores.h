// Scores of one block of queries, for the heads of one KV head.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/block_score_loops.h"
#include "kernels/cpu/block_selection_workspace.h"

namespace thresher {

// Where a row's scores come from. Pointers are those of one sequence and KV head.
struct BlockRowInputs {
  AttentionUnit unit;                       // its cache
  const std::uint16_t* key_sums = nullptr;  // [complete blocks, stride · head_dim]
  const float* value_terms = nullptr;       // [complete blocks]; null: none
  float beta = 0;
  int num_complete = 0;  // blocks of keys that the sequence has filled
  int num_keys = 0;      // of the sequence
};

// The block of queries: `own` is its block, `queries` that of the group's first head, and the heads
// follow each other head_dim floats apart; group_size of them from first_head on.
struct BlockRow {
  BlockQueries queries;
  int own = 0;
  int first_head = 0;
  int group_size = 0;
};

// scores[h · score_stride + j] for the heads and blocks j ≤ own; −infinity for a block that is not
// scored. `scratch` is a thread's, laid out as `layout` says. Not for BlockScore::kNone.
void ScoreBlockRow(const BlockScoreLoops& loops, const BlockSelectionRules& rules,
                   const BlockSelectionLayout& layout, int layer_index,
                   const BlockRowInputs& inputs, const BlockRow& row, std::byte* scratch,
                   float* scores, std::int64_t score_stride);

}  // namespace thresher
