#include "engine/model/field_reader.h"

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

// A value as a message shows it: whole if short.
std::string Shown(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return text;
}

std::optional<int> IntFrom(const nlohmann::json& value, int minimum, int maximum) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
    return std::nullopt;
  }
  const auto number = value.get<std::int64_t>();
  if (number < minimum || number > maximum) return std::nullopt;
  return static_cast<int>(number);
}

std::optional<double> FloatFrom(const nlohmann::json& value, double minimum, double maximum) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  if (!(number >= minimum && number <= maximum)) return std::nullopt;
  return number;
}

}  // namespace

absl::Status ParseJsonObject(std::string_view text, const std::string& place,
                             nlohmann::json& object) {
  object = nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) return absl::InvalidArgumentError(place + ": not valid JSON");
  if (!object.is_object()) return absl::InvalidArgumentError(place + ": not a JSON object");
  return absl::OkStatus();
}

const nlohmann::json* FieldReader::Find(std::string_view key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void FieldReader::Fail(std::string_view key, const std::string& what) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(absl::StrCat(place_, ": ", std::string(key), " ", what));
}

std::optional<int> FieldReader::OptionalInt(std::string_view key, int minimum, int maximum) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<int> number = IntFrom(*value, minimum, maximum);
  if (!number.has_value()) {
    Fail(key, absl::StrCat("is ", Shown(*value), "; it must be a whole number from ", minimum,
                           " to ", maximum));
  }
  return number;
}

int FieldReader::Int(std::string_view key, int minimum, int maximum) {
  if (!Has(key)) Fail(key, "is missing");
  return OptionalInt(key, minimum, maximum).value_or(minimum);
}

std::optional<double> FieldReader::OptionalFloat(std::string_view key, double minimum,
                                                 double maximum) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<double> number = FloatFrom(*value, minimum, maximum);
  if (!number.has_value()) {
    Fail(key, absl::StrCat("is ", Shown(*value), "; it must be a number from ", minimum, " to ",
                           maximum));
  }
  return number;
}

bool FieldReader::BoolOr(std::string_view key, bool fallback) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  Fail(key, absl::StrCat("is ", Shown(*value), "; it must be true or false"));
  return fallback;
}

std::optional<std::string> FieldReader::OptionalString(std::string_view key) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  Fail(key, absl::StrCat("is ", Shown(*value), "; it must be a string"));
  return std::nullopt;
}

std::vector<int> FieldReader::Ints(std::string_view key, int minimum, int maximum) {
  std::vector<int> numbers;
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return numbers;
  const nlohmann::json& list = value->is_array() ? *value : nlohmann::json::array({*value});
  for (const nlohmann::json& element : list) {
    const std::optional<int> number = IntFrom(element, minimum, maximum);
    if (!number.has_value()) {
      Fail(key, absl::StrCat("holds ", Shown(element), "; it must be a whole number from ", minimum,
                             " to ", maximum));
      return {};
    }
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<double> FieldReader::Floats(std::string_view key, double minimum, double maximum) {
  std::vector<double> numbers;
  const nlohmann::json* value = Find(key);
  if (value == nullptr) return numbers;
  if (!value->is_array()) Fail(key, "is not an array");
  for (const nlohmann::json& element : *value) {
    const std::optional<double> number = FloatFrom(element, minimum, maximum);
    if (!number.has_value()) {
      Fail(key, absl::StrCat("holds ", Shown(element), "; it must be a number from ", minimum,
                             " to ", maximum));
      return {};
    }
    numbers.push_back(*number);
  }
  return numbers;
}

const nlohmann::json* FieldReader::Object(std::string_view key) {
  const nlohmann::json* value = Find(key);
  if (value == nullptr || value->is_object()) return value;
  Fail(key, absl::StrCat("is ", Shown(*value), "; it must be an object"));
  return nullptr;
}

}  // namespace thresher
