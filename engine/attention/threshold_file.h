// The binary file of a threshold table. Little-endian; a checksum stands at the end.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/attention/threshold_contents.h"

namespace thresher {

// NotFound and the like as MappedFile::Open; InvalidArgument naming the file and the field if
// anything is damaged: whatever the bytes are, they are only refused. Allocates no more than the
// file's own size.
absl::StatusOr<ThresholdContents> ReadThresholdFile(const std::string& path);
// The same for a file's bytes; errors then name the field alone.
absl::StatusOr<ThresholdContents> ParseThresholdFile(std::span<const std::byte> file);

// Writes beside `path` and renames, so that a reader sees a whole file or none. InvalidArgument as
// ThresholdContents::Validate; PermissionDenied, NotFound or Internal naming the path if it cannot
// be written.
absl::Status WriteThresholdFile(const ThresholdContents& table, const std::string& path);

}  // namespace thresher
