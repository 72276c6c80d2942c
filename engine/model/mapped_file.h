// A whole file in memory, read-only, by mapping.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace thresher {

// The file must not be shortened while it is mapped: the kernel then raises SIGBUS on access.
// Immutable; any thread.
class MappedFile final {
 public:
  // NotFound if there is no such file; PermissionDenied; InvalidArgument if it is not a regular
  // file; ResourceExhausted if it cannot be mapped. Messages name the path.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }
  // Takes the pages read so far out of this process's resident memory. They stay in the system's
  // cache, and a later read maps them again.
  void ReleasePages() const;

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  std::span<const std::byte> bytes_;
};

// The whole text of a small file. As MappedFile::Open, and InvalidArgument above `max_bytes`.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, std::size_t max_bytes);

}  // namespace thresher
