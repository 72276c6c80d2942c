#include "engine/attention/policies/row_targets.h"

#include <algorithm>
#include <limits>
#include <string>

namespace thresher {
namespace {

constexpr std::int32_t kOwnTarget = 0;
constexpr std::int32_t kDense = std::numeric_limits<std::int32_t>::max();

}  // namespace

RowTargets::RowTargets(std::span<const LayerTarget> layers, const PolicyResources& resources) {
  least_.assign(static_cast<std::size_t>(resources.shape.num_layers), kOwnTarget);
  for (const LayerTarget& layer : layers) {
    if (layer.layer >= resources.shape.num_layers) continue;
    least_[static_cast<std::size_t>(layer.layer)] = layer.k == 0 ? kDense : layer.k;
  }
  const auto max_sequences = static_cast<std::size_t>(resources.limits.max_sequences);
  targets_.reserve(max_sequences);
  of_layer_.reserve(max_sequences);
}

void RowTargets::Plan(std::span<const SequenceAttention> sequences) {
  targets_.clear();
  for (const SequenceAttention& sequence : sequences) {
    targets_.push_back(static_cast<std::int32_t>(sequence.parameters[kTargetIndex]));
  }
}

std::span<const std::int32_t> RowTargets::Of(int layer_index) {
  const std::int32_t least = least_[static_cast<std::size_t>(layer_index)];
  if (least == kOwnTarget) return targets_;
  of_layer_.clear();
  for (const std::int32_t target : targets_) {
    of_layer_.push_back(least == kDense ? 0 : std::max(target, least));
  }
  return of_layer_;
}

PrefillFootprint FootprintOfTarget(std::string_view name, const ParameterValues& parameters,
                                   int prompt_length) {
  // The row at position p has p + 1 keys and is dense up to k of them.
  return {.first_row = static_cast<int>(parameters[kTargetIndex]),
          .salt = PolicySalt(std::string(name) + " prefill", parameters),
          .length_bound_row = prompt_length};
}

std::optional<DenseFallback> FallbackOfTarget(const SequenceAttention& sequence, int longest_row) {
  const double target = sequence.parameters[kTargetIndex];
  const int num_keys = sequence.context_length + sequence.query_length;  // of the last row
  if (sequence.context_length < sequence.prompt_length) {
    if (num_keys != sequence.prompt_length) return std::nullopt;
    if (num_keys <= target) return DenseFallback::kShortPrompt;
    if (num_keys > longest_row) return DenseFallback::kLongPrompt;
  } else if (sequence.query_length == 1) {
    if (num_keys <= target) return DenseFallback::kShortRow;
    if (num_keys > longest_row) return DenseFallback::kLongRow;
  }
  return std::nullopt;
}

}  // namespace thresher
