// Reads how a config.json says that positions are rotated.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "engine/model/model_config.h"

namespace thresher {

// `config` is the whole config.json. Unimplemented naming a rope type that is not known;
// InvalidArgument naming the field.
absl::StatusOr<RopeConfig> RopeConfigFromHuggingFace(const nlohmann::json& config, int head_dim,
                                                     int max_position);

}  // namespace thresher
