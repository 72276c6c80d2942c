// Thresholded attention in double, from the definitions: every score, what is kept, the output.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops/kv_selection.h"
#include "tests/support/reference/paged_attention_case.h"

namespace thresher {

// A table of thresholds that are the same for every k and row length.
struct FlatThresholds {
  // Heads' thresholds and calibrated denominators.
  explicit FlatThresholds(std::vector<float> thresholds, std::vector<float> denominators = {});
  // Borrows this.
  ThresholdGrid grid() const;

  std::vector<float> axis = {0};
  std::vector<float> theta;
  std::vector<float> slope;
  std::vector<float> dropped;
};

// One query and head.
struct ThresholdRow {
  std::vector<double> scores;   // [n]
  std::vector<double> softmax;  // [n], dense weights
  std::vector<bool> survives;   // [n], the head's own
  std::vector<bool> used;       // [n], the group's with promotion; the argmax if all else fails
  double threshold = 0;         // in units of the score
  double dropped_mass = 0;
  std::vector<double> output;  // [head_dim]
  double bound = 0;            // largest allowed difference of an element; infinite if ambiguous
  // Whether a score is so near its threshold that rounding may decide.
  bool ambiguous = false;
  int num_survivors() const;
};

struct ThresholdReference {
  std::vector<ThresholdRow> rows;        // [num_tokens, num_heads]
  std::vector<std::int64_t> value_rows;  // [num_tokens, num_kv_heads]
  // Share of rows whose selection rounding may decide.
  double ambiguous_share() const;
};

// Dense rows have every key and no mean.
ThresholdReference ComputeThresholdReference(const PagedAttentionCase& attention,
                                             const SelectAboveThreshold& selection);

}  // namespace thresher
