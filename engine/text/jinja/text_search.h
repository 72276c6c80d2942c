// Replacing and splitting, charged to a budget.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/jinja/budget.h"
#include "engine/text/jinja/value.h"

namespace thresher::jinja {

// str.replace; a negative count means all.
absl::StatusOr<std::string> ReplaceText(Budget& budget, std::string_view text, std::string_view old,
                                        std::string_view with, std::int64_t count);
// str.split and str.rsplit at a separator, or at runs of whitespace if it is null. A negative
// max_splits means all. InvalidArgument for an empty separator.
absl::StatusOr<std::vector<Value>> SplitText(Budget& budget, std::string_view text,
                                             const std::string* separator, std::int64_t max_splits,
                                             bool from_right);

}  // namespace thresher::jinja
