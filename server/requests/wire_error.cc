#include "server/requests/wire_error.h"

#include "absl/strings/cord.h"
#include "engine/request_error.h"
#include "engine/text/excerpt.h"

namespace thresher {
namespace {

constexpr char kParamPayload[] = "thresher/param";
constexpr char kCodePayload[] = "thresher/code";
constexpr char kContextLength[] = "context_length_exceeded";

absl::Cord CordOf(std::string_view text) { return absl::Cord(std::string(text)); }

std::string Payload(const absl::Status& status, const char* url) {
  const auto payload = status.GetPayload(url);
  return payload.has_value() ? std::string(*payload) : std::string();
}

}  // namespace

absl::Status InvalidField(std::string_view field, std::string_view message) {
  return WireError(absl::StatusCode::kInvalidArgument, "", field, message);
}

absl::Status WireError(absl::StatusCode status, std::string_view code, std::string_view param,
                       std::string_view message) {
  absl::Status error(status, std::string(message));
  if (!code.empty()) error.SetPayload(kCodePayload, CordOf(code));
  if (!param.empty()) error.SetPayload(kParamPayload, CordOf(param));
  return error;
}

absl::Status RenameField(const absl::Status& status, const std::string& engine_field,
                         const std::string& wire_field) {
  const std::string message(status.message());
  if (engine_field == wire_field || ErrorField(status) != engine_field ||
      message.compare(0, engine_field.size(), engine_field) != 0) {
    return status;
  }
  const std::string problem = message.substr(engine_field.size());
  return WireError(status.code(), IsContextLengthError(status) ? kContextLength : "", wire_field,
                   wire_field + problem);
}

WireErrorFields DescribeError(const absl::Status& status) {
  WireErrorFields fields;
  fields.message =
      Excerpt(std::string_view(status.message().data(), status.message().size()), kMaxErrorBytes);
  fields.param = Payload(status, kParamPayload);
  fields.code = Payload(status, kCodePayload);
  if (fields.param.empty()) fields.param = ErrorField(status);
  fields.param = Excerpt(fields.param, kMaxErrorBytes);
  if (IsContextLengthError(status)) fields.code = kContextLength;
  const auto set = [&fields](int http_status, const char* type, const char* code) {
    fields.http_status = http_status;
    fields.type = type;
    if (fields.code.empty()) fields.code = code;
  };
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
      set(400, "invalid_request_error", "");
      fields.deterministic = true;
      break;
    case absl::StatusCode::kUnauthenticated:
      set(401, "authentication_error", "invalid_api_key");
      fields.deterministic = true;
      break;
    case absl::StatusCode::kNotFound:
      set(404, "not_found_error", "");
      fields.deterministic = true;
      break;
    case absl::StatusCode::kAlreadyExists:
      set(400, "invalid_request_error", "duplicate_request_id");
      fields.deterministic = true;
      break;
    case absl::StatusCode::kResourceExhausted:
      set(429, "rate_limit_error", "overloaded");
      // About the time in which a queue slot comes free; the client adds its own back-off.
      fields.retry_after_seconds = 1;
      break;
    case absl::StatusCode::kUnavailable:
      set(503, "unavailable_error", "unavailable");
      // This instance leaves rotation or is still loading: seconds, not milliseconds.
      fields.retry_after_seconds = 5;
      break;
    case absl::StatusCode::kDeadlineExceeded:
      set(504, "timeout_error", "deadline_exceeded");
      break;
    case absl::StatusCode::kCancelled:
      set(499, "cancelled_error", "cancelled");
      break;
    default:
      set(500, "server_error", "internal_error");
      break;
  }
  return fields;
}

}  // namespace thresher
