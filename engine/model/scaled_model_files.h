// A model on disk whose context is stretched by scaling its rotary angles.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/model/model_files.h"

namespace thresher {

// The same model with YaRN by `factor` over its own context, arXiv 2309.00071: max_position grows
// by the factor. A stand-in for a model that was trained at that length. Factor 1 is the model as
// it is. InvalidArgument if the factor is not in [1, 64], or, above 1, if the model scales its
// angles already or has a sliding window.
absl::StatusOr<std::unique_ptr<ModelFiles>> StretchContext(std::unique_ptr<ModelFiles> files,
                                                           double factor);

}  // namespace thresher
