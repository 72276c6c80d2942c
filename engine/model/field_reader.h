// Reads the fields of a JSON object with range checks; the first thing wrong is kept.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace thresher {

// Parses `text`, which must be one JSON object, into `object`. InvalidArgument naming `place`.
absl::Status ParseJsonObject(std::string_view text, const std::string& place,
                             nlohmann::json& object);

// A field that is null counts as absent. After an error every read gives its fallback, so that a
// caller checks `status` once, at the end. Borrows all it is given.
class FieldReader final {
 public:
  // `place` names the object in messages: "config.json". `status` may already hold an error.
  FieldReader(const nlohmann::json& object, std::string place, absl::Status& status)
      : object_(object), place_(std::move(place)), status_(status) {}

  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  // Required: an error if absent. Ranges are inclusive.
  int Int(std::string_view key, int minimum, int maximum);
  std::optional<int> OptionalInt(std::string_view key, int minimum, int maximum);
  std::optional<double> OptionalFloat(std::string_view key, double minimum, double maximum);
  bool BoolOr(std::string_view key, bool fallback);
  std::optional<std::string> OptionalString(std::string_view key);
  // An array of numbers, or a single one.
  std::vector<int> Ints(std::string_view key, int minimum, int maximum);
  std::vector<double> Floats(std::string_view key, double minimum, double maximum);
  // The value if it is an object; null if absent; an error if it is something else.
  const nlohmann::json* Object(std::string_view key);
  // Any value; null if absent.
  const nlohmann::json* Find(std::string_view key) const;

 private:
  void Fail(std::string_view key, const std::string& what);

  const nlohmann::json& object_;
  std::string place_;
  absl::Status& status_;
};

}  // namespace thresher
