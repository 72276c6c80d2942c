// JSON text to a value of a template.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/text/jinja/value.h"

namespace thresher::jinja {

// Keys keep their order; of a key that comes twice the last value counts, at the first place, as in
// Python. InvalidArgument, starting with `field`, for what is no JSON, and for more than
// kMaxJsonDepth brackets inside each other.
inline constexpr int kMaxJsonDepth = 100;
absl::StatusOr<Value> ParseJson(std::string_view json, std::string_view field);

}  // namespace thresher::jinja
