// Models that need no file: a known architecture's sizes with random weights, for measuring speed.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/model_files.h"

namespace thresher {

// Whether `path` is "synthetic:SHAPE" instead of a place on disk.
bool IsSyntheticModel(const std::string& path);

// Weights are generated on the device that packs them (see GeneratedNumbers), the same ones every
// time, so that activations and logits have the spread of a trained model's; norm weights are one.
// Tokens are those of NumberedTokenizer, none of which ends a sequence. `path` is
// "synthetic:SHAPE"; NotFound, listing the shapes, for another one.
absl::StatusOr<std::unique_ptr<ModelFiles>> OpenSyntheticModel(const std::string& path);

}  // namespace thresher
