// Hugging Face's pre-tokenizer patterns are written for Oniguruma; this says the same to PCRE2.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace thresher {

// The pattern for PCRE2 with UTF, UCP and MULTILINE. Constructs that mean something else there are
// rewritten: `\s` (PCRE2's takes U+180E, Unicode's White_Space does not), `\d`, scripts (PCRE2's
// names mean script extensions). Unimplemented naming a construct that has no sure equivalent
// (`\w`, nested classes, back references and the like), and where it stands.
absl::StatusOr<std::string> TranslateRegex(std::string_view pattern);

}  // namespace thresher
