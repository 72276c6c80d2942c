// Whole files that an operator names.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace thresher {

// What a file, a pipe or a device holds; the engine's ReadTextFile takes regular files alone, as a
// model's folder need not be the operator's own. NotFound if it cannot be read, InvalidArgument if
// it is a directory; both name `what` ("--config") and the path.
absl::StatusOr<std::string> ReadFileOf(const std::string& what, const std::string& path);

}  // namespace thresher
