#include "engine/attention/write_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

absl::Status WriteError(const std::string& path, int error) {
  const std::string message = absl::StrCat(path, ": cannot write: ", strerror(error));
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    default:
      return absl::InternalError(message);
  }
}

// 0, or the errno of what failed. Closes the descriptor.
int WriteAll(int descriptor, std::string_view bytes) {
  int error = 0;
  while (!bytes.empty() && error == 0) {
    const ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && fsync(descriptor) != 0) error = errno;
  if (close(descriptor) != 0 && error == 0) error = errno;
  return error;
}

}  // namespace

absl::Status WriteWholeFile(const std::string& path, std::string_view bytes) {
  const std::string partial = path + ".partial";
  const int descriptor = open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return WriteError(path, errno);
  int error = WriteAll(descriptor, bytes);
  if (error == 0 && rename(partial.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  unlink(partial.c_str());
  return WriteError(path, error);
}

}  // namespace thresher
