// Errors as the wire tells them: which field, which code, and the HTTP status of each absl code.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace thresher {

// InvalidArgument about one field of a request.
absl::Status InvalidField(std::string_view field, std::string_view message);
// Any error with the wire's `code`, and its `param` if not empty.
absl::Status WireError(absl::StatusCode status, std::string_view code, std::string_view param,
                       std::string_view message);

// The engine's FieldError under the name that this request used for the field.
absl::Status RenameField(const absl::Status& status, const std::string& engine_field,
                         const std::string& wire_field);

// The bytes of a message that are sent. Ours quote kExcerptBytes of what a client wrote; only a
// model's template may quote more of its messages.
inline constexpr std::size_t kMaxErrorBytes = 1024;

struct WireErrorFields {
  int http_status = 500;
  std::string message;
  std::string type;             // "invalid_request_error", …
  std::string param;            // empty: null
  std::string code;             // empty: null
  int retry_after_seconds = 0;  // 0: no header
  bool deterministic = false;   // x-should-retry: false
};

// `status` is not ok.
WireErrorFields DescribeError(const absl::Status& status);

}  // namespace thresher
