// The rows of a few queries that read their best keys alone, for one KV head.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention_unit.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/cpu/score_rows.h"
#include "kernels/ops/kv_selection.h"

namespace thresher {

struct RankedUnit {
  AttentionUnit rows;  // whole queries; first_key 0, num_keys those of the last query
  int target = 0;      // above 0; queries of no more keys are left alone
  bool by_pages = false;
  bool compensates = false;
  // Of query 0 and the group's first head, or null: [queries] apart by the stride, of heads
  // [group_size] in a row.
  ThresholdCounts* counts = nullptr;
  std::int64_t counts_stride = 0;
  std::int32_t* survivors = nullptr;
  std::int64_t survivors_stride = 0;
};

struct RankedLoops {
  const RowOps& ops;
  ScoreRowsLoop score_rows;
};

// Floats of scratch that a unit of at most so many keys needs; grows with each argument.
std::int64_t RankedScratchFloats(int max_keys, int head_dim, int group_size);

// Writes the unit's sparse rows. Pure; a row's bits depend on its query and its keys alone.
void RunRankedRows(const RankedUnit& unit, const RankedLoops& loops, float* scratch);

}  // namespace thresher
