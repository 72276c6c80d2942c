// JSON from clients: bounded depth, no duplicate keys, valid UTF-8, never an exception.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace thresher {

// InvalidArgument saying what is wrong and at which byte: not JSON, not UTF-8, a number out of
// range, deeper than `max_depth`, or a key given twice in one object.
absl::StatusOr<nlohmann::ordered_json> ParseJson(std::string_view text, int max_depth);

// As above, and the document must be an object.
absl::StatusOr<nlohmann::ordered_json> ParseJsonObject(std::string_view text, int max_depth);

}  // namespace thresher
