// Threshold tables for tests, made from a formula.
#pragma once

#include "engine/attention/threshold_contents.h"

namespace thresher::testing {

struct TableShape {
  int num_layers = 2;
  int num_heads = 4;
  int num_kv_heads = 2;
  int head_dim = 8;
};

// All three placements, denominators, gammas and value statistics, valid and all numbers
// different. k 16 … 64 and n 64 … 256 at ratio 2; θ falls with k and rises with n.
ThresholdContents SampleTable(const TableShape& shape);

}  // namespace thresher::testing
