// The angles by which positions rotate q and k, with every scaling that the families use.
#pragma once

#include <span>
#include <vector>

#include "engine/model/model_config.h"

namespace thresher {

struct RotaryFrequencies {
  std::vector<double> radians_per_position;  // [rotary_dim / 2], falling
  double attention_factor = 1;               // multiplies cosines and sines
};

// `max_position` is the largest context that will be served: longrope takes its long factors if
// that exceeds the original length, for every position and sequence, so that a cached key never
// depends on what follows it. Dynamic NTK is the unscaled table, which it is up to
// max_position_embeddings; beyond, its angles would change with the sequence's length, so the
// context ends there.
RotaryFrequencies ComputeRotaryFrequencies(const RopeConfig& rope, int max_position);

// Fills `cos_sin` [num_positions, rotary_dim]: rotary_dim / 2 cosines, then as many sines.
void FillRotaryTable(const RotaryFrequencies& frequencies, int num_positions,
                     std::span<float> cos_sin);

}  // namespace thresher
