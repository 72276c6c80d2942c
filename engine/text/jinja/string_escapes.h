// The escapes of a string in a template.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace thresher::jinja {

// What Python's unicode-escape codec makes of the text between the quotes. InvalidArgument for a
// cut or out-of-range escape and for a surrogate, which no UTF-8 text can hold; Unimplemented for
// \N{name}.
absl::StatusOr<std::string> Unescape(std::string_view text);

}  // namespace thresher::jinja
