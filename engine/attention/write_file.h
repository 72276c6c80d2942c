// Replaces a file as a whole.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace thresher {

// Writes `path`.partial and renames it, so that a reader sees the old file or the new one, never a
// part. PermissionDenied, NotFound (no such folder) or Internal, naming the path; nothing is left
// behind then.
absl::Status WriteWholeFile(const std::string& path, std::string_view bytes);

}  // namespace thresher
