#include "engine/request_error.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

constexpr char kFieldPayload[] = "thresher/field";
constexpr char kContextPayload[] = "thresher/context_length_exceeded";

}  // namespace

absl::Status FieldError(const std::string& field, const std::string& problem) {
  absl::Status status = absl::InvalidArgumentError(absl::StrCat(field, " ", problem));
  status.SetPayload(kFieldPayload, absl::Cord(field));
  return status;
}

absl::Status ContextLengthError(const std::string& field, const std::string& problem) {
  absl::Status status = FieldError(field, problem);
  status.SetPayload(kContextPayload, absl::Cord());
  return status;
}

std::string ErrorField(const absl::Status& status) {
  const auto payload = status.GetPayload(kFieldPayload);
  return payload.has_value() ? std::string(*payload) : std::string();
}

bool IsContextLengthError(const absl::Status& status) {
  return status.GetPayload(kContextPayload).has_value();
}

}  // namespace thresher
