// How a number that an option does not allow is refused.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace thresher {

// "--threads is 5000; it must be from 1 to 4096"
inline absl::Status FlagError(const char* flag, std::int64_t value, const std::string& allowed) {
  return absl::InvalidArgumentError(absl::StrCat(flag, " is ", value, "; it must be ", allowed));
}

}  // namespace thresher
