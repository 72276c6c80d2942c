#include "server/config/text_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace thresher {

absl::StatusOr<std::string> ReadFileOf(const std::string& what, const std::string& path) {
  // A stream opens a directory and reads nothing from it.
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return absl::InvalidArgumentError(absl::StrCat(what, " ", path, " is a directory, not a file"));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", what, " ", path));
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) return absl::NotFoundError(absl::StrCat("cannot read ", what, " ", path));
  return text;
}

}  // namespace thresher
