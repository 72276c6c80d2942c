// One unit of thresholded attention for the inner loops, which exist once for each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention_unit.h"
#include "kernels/ops/kv_selection.h"

namespace thresher {

// The heads of one query and KV head against a range of keys, all of which they see.
struct ThresholdUnit {
  AttentionUnit rows;  // rows.partial: [group_size] partial results
  // [group_size], in units of the score q·k · scale: a key is kept if its score is greater.
  const float* thresholds = nullptr;
  bool promotes = false;
  bool sums_values = false;  // whether the sum of the kept values is asked for
  // Scores of all the row's keys, [group_size, score_stride]; null: the unit computes its own.
  float* scores = nullptr;
  std::int64_t score_stride = 0;  // a multiple of kKeyTile
  // Of the keys behind the unit's, those that the thread reads next, and whether it has read those
  // before: what to fetch ahead. No result depends on it.
  int num_keys_after = 0;
  bool follows = false;
};

// A partial result of a row: kThresholdHeader floats; the weighted sum of the kept values, relative
// to `largest`; the sum of the kept values. Values lie in the order of the inner loops, each of
// padded length. With promotion the sum of kept values and the count of value rows are the group's,
// kept by the first row. Counts and positions are exact: they stay below 2^24.
struct ThresholdPartial {
  float largest = 0;     // score, over all keys
  float kept = 0;        // sum of exp(s − largest) over the kept keys
  float dropped = 0;     // and over the others
  float survivors = 0;   // keys above the row's own threshold
  float argmax = 0;      // position of the largest score, the first of equals
  float value_rows = 0;  // first row: keys that any row of the group keeps
};
inline constexpr int kThresholdHeader = 8;
inline constexpr int kLoopPadding = 16;  // head_dim is padded to whole multiples

constexpr std::int64_t PaddedHeadDim(int head_dim) {
  return (head_dim + kLoopPadding - 1) / kLoopPadding * kLoopPadding;
}
constexpr std::int64_t ThresholdPartialFloats(int head_dim) {
  return kThresholdHeader + 2 * PaddedHeadDim(head_dim);
}

// Floats of scratch that a unit or a merge needs.
constexpr std::int64_t ThresholdScratchFloats(int head_dim, int group_size) {
  return std::int64_t{group_size} * (3 * PaddedHeadDim(head_dim)  // queries, outputs, sums
                                     + 3 * kKeyTile               // scores, weights
                                     + 16)                        // running state
         + 4 * PaddedHeadDim(head_dim);
}

// How the partial results of one query and KV head become its output.
struct ThresholdMerge {
  AttentionUnit rows;  // num_keys: of the whole row
  const float* partials = nullptr;
  int num_partials = 0;
  std::int64_t stride = 0;            // floats between the partial results of two ranges of keys
  const float* thresholds = nullptr;  // [group_size]
  const float* calibrated = nullptr;  // [group_size], of kCalibrated
  const float* value_sum = nullptr;   // [head_dim], over all keys; of any ValueMean but kOff
  DroppedDenominator denominator = DroppedDenominator::kExact;
  ValueMean value_mean = ValueMean::kOff;
  float gamma = 1;
  bool promotes = false;
};

struct ThresholdOutcome {
  int survivors = 0;
  float dropped_mass = 0;
  int argmax = -1;  // position of the key kept for want of another, else −1
};

// Sums of a head's keys or values over whole blocks.
struct BlockSums {
  const float* sums = nullptr;  // the KV head's part of block 0; [head_dim]
  std::int64_t block_floats = 0;
  bool holds_last = false;  // whether the last block's sum ends with the last key
};

// Function pointers of one instruction set. Pure functions; a row's result depends on nothing but
// the row, its keys and the unit's first_key and num_keys, bit by bit.
struct AttentionThresholdLoops {
  // Writes the unit's scores, and into each row's partial result its largest score and the sum of
  // exp(s − largest).
  void (*score)(const ThresholdUnit& unit, float* scratch);
  // thresholds[row] += ln Σ exp(s), from what `score` left in the partial results.
  void (*add_log_sum)(const ThresholdMerge& merge, float* thresholds);
  // Fills the unit's partial results; with scores, those that `score` has left there.
  void (*attend)(const ThresholdUnit& unit, float* scratch);
  // Writes `out` and outcomes [group_size]; returns the number of value rows read.
  int (*merge)(const ThresholdMerge& merge, float* scratch, ThresholdOutcome* outcomes);
  // sum [head_dim] := the sum over the first rows.num_keys rows of `base` (rows.k or rows.v), block
  // by block, as appending them one by one makes it.
  void (*sum_keys)(const AttentionUnit& rows, const std::byte* base, const BlockSums& blocks,
                   float* sum);
  // thresholds[row] += the mean of the row's scores, key_sum [head_dim] the sum over its keys.
  void (*add_mean_score)(const AttentionUnit& rows, const float* key_sum, float* thresholds);
};

const AttentionThresholdLoops& AttentionThresholdLoopsAvx2();
const AttentionThresholdLoops& AttentionThresholdLoopsAvx512();

}  // namespace thresher
