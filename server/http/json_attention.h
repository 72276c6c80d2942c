// The `attention` block of a body. Strict: an unknown key must never be ignored.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "server/requests/attention_mapping.h"

namespace thresher {

// A string (a level's name) or an object. InvalidArgument naming the key.
absl::StatusOr<AttentionWish> ReadAttention(const nlohmann::ordered_json& value);

}  // namespace thresher
