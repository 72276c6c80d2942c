// Errors about one field of a request, in a form that a front end can put on its own wire.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace thresher {

// InvalidArgument whose message is `field` + " " + `problem`; ErrorField finds the field again.
absl::Status FieldError(const std::string& field, const std::string& problem);

// FieldError of "prompt" or "max_tokens" for a request that is longer than the model's context; the
// message has both counts.
absl::Status ContextLengthError(const std::string& field, const std::string& problem);

// The field that FieldError named, as on the wire ("temperature"); empty for other errors.
std::string ErrorField(const absl::Status& status);

// True for the errors of ContextLengthError ("code": "context_length_exceeded").
bool IsContextLengthError(const absl::Status& status);

}  // namespace thresher
