// The one way the interpreter says that a template, or what it was given, is wrong.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace thresher::jinja {

template <typename... Parts>
absl::Status Failure(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

}  // namespace thresher::jinja
