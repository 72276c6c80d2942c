// Whole files that an operator names.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace thresher {

// What a file, a pipe or a device holds. NotFound if it cannot be read, InvalidArgument if it is a
// directory; both name `what` ("--config") and the path.
absl::StatusOr<std::string> ReadTextFile(const std::string& what, const std::string& path);

}  // namespace thresher
