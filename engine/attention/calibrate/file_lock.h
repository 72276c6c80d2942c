// One process at a time.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace thresher {

// A file that exists while its owner works on what it stands for; removed with it. The system
// forgets the lock when a process dies, and a file that is left over locks nobody out.
class FileLock final {
 public:
  // Does not wait: Aborted if another holds it. Otherwise NotFound (no such folder),
  // PermissionDenied or Internal, naming the path.
  static absl::StatusOr<std::unique_ptr<FileLock>> Take(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  FileLock(std::string path, int descriptor);

  const std::string path_;
  const int descriptor_;
};

}  // namespace thresher
