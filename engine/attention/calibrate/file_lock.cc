#include "engine/attention/calibrate/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

// Whether the path still names the open file: its last owner may have removed it in between.
bool IsAt(const std::string& path, int descriptor) {
  struct stat open_file = {}, at_path = {};
  return fstat(descriptor, &open_file) == 0 && stat(path.c_str(), &at_path) == 0 &&
         open_file.st_dev == at_path.st_dev && open_file.st_ino == at_path.st_ino;
}

}  // namespace

FileLock::FileLock(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

FileLock::~FileLock() {
  // Removed while it is held, so that nobody's file but one's own is.
  unlink(path_.c_str());
  close(descriptor_);
}

absl::StatusOr<std::unique_ptr<FileLock>> FileLock::Take(const std::string& path) {
  while (true) {
    const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot open"));
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      close(descriptor);
      if (error == EINTR) continue;
      if (error == EWOULDBLOCK) {
        return absl::AbortedError(absl::StrCat(path, ": another process holds this lock"));
      }
      return absl::ErrnoToStatus(error, absl::StrCat(path, ": cannot lock"));
    }
    if (IsAt(path, descriptor)) return std::unique_ptr<FileLock>(new FileLock(path, descriptor));
    close(descriptor);
  }
}

}  // namespace thresher
