// What the operator decides about attention for all requests.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "engine/attention/block_budget.h"
#include "kernels/ops/block_selector.h"
#include "kernels/ops/kv_selection.h"

namespace thresher {

// A layer whose k is never below `k`, whatever the request asks for; 0: the layer is dense.
struct LayerTarget {
  int layer = 0;
  int k = 0;
};

// The defaults are what tests/golden/evaluation measured to lose least.
struct TopThetaSettings {
  ThresholdPlacement placement = ThresholdPlacement::kPost;
  DroppedDenominator denominator = DroppedDenominator::kExact;
  ValueMean value_mean = ValueMean::kDropped;
  float gamma = 1;  // of DroppedDenominator::kExponential
  bool promotes = true;
  std::vector<LayerTarget> layers = {{0, 0}, {1, 0}};
  // Rows longer than this many times the table's longest row are dense; 0: none are. Measured for
  // kPost: 8 keeps mean survivors within [2/3, 3/2] of k, 15 does not.
  int max_length_factor = 8;
};

// Which cached blocks a prompt under a block policy shares, beyond its exactly dense beginning.
enum class CacheMatch {
  kStrict,     // of prompts with the same parameters and length
  kLoose,      // also of other lengths and parameters, and dense ones: an approximation
  kDenseOnly,  // none
};

// Of every policy that reads lists of blocks; the defaults are those of stem.md §6.
struct BlockListSettings {
  BudgetSchedule schedule;  // its mu is the request's
  ForcedBlocks forced;
  int stride = 16;
  ValueTerm value_term = ValueTerm::kCalibrated;
  std::vector<int> dense_layers = {0, 1};
  bool shares_group = false;
  CacheMatch cache_match = CacheMatch::kStrict;
  float covered_mass = 0.9f;                // of xattention
  ForcedBlocks streaming = {4, 16, false};  // all that streaming reads
};

struct AttentionSettings {
  TopThetaSettings top_theta;
  BlockListSettings block_lists;
  // Every so many steps that decode sparsely also compute dense attention; 0: never.
  int shadow_interval = 0;
  // Requests may name the policies that exist to judge others (oracle, random).
  bool allows_evaluation_policies = false;

  // InvalidArgument naming the field, its value and the limit.
  absl::Status Validate() const;
  // Likewise, for layers that the model does not have. The defaults name two whatever the model:
  // those are left alone where there is but one.
  absl::Status ValidateLayers(int num_layers) const;
};

}  // namespace thresher
