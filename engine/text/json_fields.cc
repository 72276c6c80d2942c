// Type checks before every access: the JSON library would throw.
#include "engine/text/json_fields.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

const nlohmann::json& NullJson() {
  static const nlohmann::json null;
  return null;
}

}  // namespace

JsonPlace JsonPlace::operator[](const char* key) const {
  std::string child_path = path.empty() ? key : absl::StrCat(path, ".", key);
  if (value.is_object()) {
    const auto member = value.find(key);
    if (member != value.end()) return {*member, std::move(child_path)};
  }
  return {NullJson(), std::move(child_path)};
}

JsonPlace JsonPlace::Element(std::size_t index) const {
  return {value[index], absl::StrCat(path, "[", index, "]")};
}

bool JsonPlace::is_null() const { return value.is_null(); }

absl::StatusOr<std::string> JsonPlace::String() const {
  if (!value.is_string()) return Error("must be a string");
  return value.get_ref<const std::string&>();
}

absl::StatusOr<std::int64_t> JsonPlace::Int() const {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX)) {
    return Error("must be an integer");
  }
  return value.get<std::int64_t>();
}

absl::Status JsonPlace::ExpectArray() const {
  return value.is_array() ? absl::OkStatus() : Error("must be an array");
}

absl::Status JsonPlace::ExpectObject() const {
  return value.is_object() ? absl::OkStatus() : Error("must be an object");
}

absl::StatusOr<bool> JsonPlace::BoolOr(bool if_null) const {
  if (value.is_null()) return if_null;
  if (!value.is_boolean()) return Error("must be true or false");
  return value.get<bool>();
}

absl::Status JsonPlace::Error(std::string_view problem) const {
  return absl::InvalidArgumentError(absl::StrCat(path, " ", std::string(problem)));
}

absl::Status JsonPlace::Unknown(std::string_view construct) const {
  return absl::UnimplementedError(
      absl::StrCat(path, ": ", std::string(construct), " is not supported"));
}

}  // namespace thresher
