// The operator's settings of attention: configuration file to what the engine takes.
#pragma once

#include "absl/status/status.h"
#include "engine/attention/attention_settings.h"
#include "thresher/v1/config.pb.h"

namespace thresher {

// Fields left out keep their defaults. InvalidArgument as AttentionSettings::Validate.
absl::Status FillAttentionSettings(const v1::ServeConfig& config, AttentionSettings& settings);

}  // namespace thresher
