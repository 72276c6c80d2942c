#include "server/http/json_fields.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/requests/wire_error.h"

namespace thresher {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kInteger[] = "a 64-bit integer";

}  // namespace

bool IsInt64(const Json& value) {
  if (value.is_number_unsigned()) {
    return value.get<std::uint64_t>() <=
           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  }
  return value.is_number_integer();
}

const char* JsonTypeName(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return IsInt64(value) ? "an integer" : "a larger one";
    default:
      // An integer beyond 64 bits is read as a float; from 2^63 on no float has a fraction.
      return std::abs(value.get<double>()) < 0x1p63 ? "a number with a fraction or an exponent"
                                                    : "a larger number";
  }
}

JsonFields::JsonFields(const Json& object, std::string path)
    : object_(object), path_(std::move(path)) {}

const Json* JsonFields::Find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void JsonFields::Fail(const std::string& name, const std::string& message) {
  if (status_.ok()) status_ = InvalidField(path_ + name, message);
}

void JsonFields::Fail(const absl::Status& error) {
  if (status_.ok()) status_ = error;
}

void JsonFields::WrongType(const char* name, const char* expected, const Json& value) {
  Fail(name, absl::StrCat(path_, name, " must be ", expected, ", not ", JsonTypeName(value)));
}

void JsonFields::Read(const char* name, std::optional<double>& value) {
  const Json* found = Find(name);
  if (found == nullptr) return;
  if (!found->is_number()) return WrongType(name, "a number", *found);
  value = found->get<double>();
}

void JsonFields::Read(const char* name, std::optional<std::int64_t>& value) {
  const Json* found = Find(name);
  if (found == nullptr) return;
  if (!IsInt64(*found)) return WrongType(name, kInteger, *found);
  value = found->get<std::int64_t>();
}

void JsonFields::Read(const char* name, std::int64_t& value) {
  std::optional<std::int64_t> read;
  Read(name, read);
  if (read.has_value()) value = *read;
}

void JsonFields::Read(const char* name, std::optional<bool>& value) {
  const Json* found = Find(name);
  if (found == nullptr) return;
  if (!found->is_boolean()) return WrongType(name, "a boolean", *found);
  value = found->get<bool>();
}

void JsonFields::Read(const char* name, bool& value) {
  std::optional<bool> read;
  Read(name, read);
  if (read.has_value()) value = *read;
}

void JsonFields::Read(const char* name, std::optional<std::string>& value) {
  const Json* found = Find(name);
  if (found == nullptr) return;
  if (!found->is_string()) return WrongType(name, "a string", *found);
  value = found->get_ref<const std::string&>();
}

void JsonFields::Read(const char* name, std::string& value) {
  std::optional<std::string> read;
  Read(name, read);
  if (read.has_value()) value = *std::move(read);
}

void JsonFields::Read(const char* name, std::vector<std::int64_t>& value) {
  const Json* found = Find(name);
  if (found == nullptr) return;
  if (!found->is_array()) return WrongType(name, "an array of integers", *found);
  for (const Json& element : *found) {
    if (!IsInt64(element)) {
      return Fail(name, absl::StrCat(path_, name, " must hold 64-bit integers, not ",
                                     JsonTypeName(element)));
    }
    value.push_back(element.get<std::int64_t>());
  }
}

}  // namespace thresher
