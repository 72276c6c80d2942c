// Reads config.json and generation_config.json of a Hugging Face folder.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/model/model_config.h"

namespace thresher {

// InvalidArgument naming the field; Unimplemented naming the architecture, activation, quantisation
// or rope type that is not known. rope_scaling and rope_theta are read, and the newer
// rope_parameters, which wins.
absl::StatusOr<ModelConfig> ModelConfigFromHuggingFace(std::string_view config_json);

// `generation_json` is empty if there is no such file. End tokens are generation_config's, or else
// config.json's. InvalidArgument naming the field.
absl::StatusOr<GenerationDefaults> GenerationDefaultsFromHuggingFace(
    std::string_view generation_json, std::string_view config_json, int vocab_size);

}  // namespace thresher
