// What policies with a k of keys for each row have in common: rows of at most k keys are dense, and
// the operator may give layers a k of their own.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/attention/attention_settings.h"
#include "engine/attention/policy_kind.h"

namespace thresher {

inline constexpr int kTargetIndex = 0;  // of k among the policy's parameters

// One group's k. One thread at a time; allocates nothing after creation.
class RowTargets final {
 public:
  // Layers past the model's last are left alone.
  RowTargets(std::span<const LayerTarget> layers, const PolicyResources& resources);
  // Once a step.
  void Plan(std::span<const SequenceAttention> sequences);
  // k of each sequence in this layer [num_sequences]; 0: dense. Good until the next call.
  std::span<const std::int32_t> Of(int layer_index);

 private:
  std::vector<std::int32_t> least_;     // [num_layers], or one of the values in the .cc
  std::vector<std::int32_t> targets_;   // [num_sequences] of the step
  std::vector<std::int32_t> of_layer_;  // likewise, of a layer with a least k
};

// As PolicyKind's, of a policy of that name.
PrefillFootprint FootprintOfTarget(std::string_view name, const ParameterValues& parameters,
                                   int prompt_length);
// longest_row: keys of the longest row that is not dense.
std::optional<DenseFallback> FallbackOfTarget(const SequenceAttention& sequence,
                                              int longest_row = std::numeric_limits<int>::max());

}  // namespace thresher
