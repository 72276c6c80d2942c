// The `messages` of a chat, checked and put into the form that templates read.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace thresher {

// Text parts become one text; the arguments of tool calls become objects. Returns JSON text with
// the key order kept. InvalidArgument naming the place ("messages[1].content").
absl::StatusOr<std::string> NormalizeMessages(const nlohmann::ordered_json& messages,
                                              int max_depth);

}  // namespace thresher
