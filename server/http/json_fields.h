// Typed reads of the fields of a client's JSON object. A null is an absent field; a value of
// another type is an InvalidArgument that names the field, never a default.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace thresher {

// Keeps the first error, so that a list of reads is checked once at its end. The object outlives
// it.
class JsonFields final {
 public:
  // `path` is put before field names: "" or "stream_options.".
  JsonFields(const nlohmann::ordered_json& object, std::string path);

  // Null if absent or null.
  const nlohmann::ordered_json* Find(const char* name) const;

  void Read(const char* name, std::optional<double>& value);
  void Read(const char* name, std::optional<std::int64_t>& value);
  void Read(const char* name, std::int64_t& value);
  void Read(const char* name, std::optional<bool>& value);
  void Read(const char* name, bool& value);
  void Read(const char* name, std::optional<std::string>& value);
  void Read(const char* name, std::string& value);
  void Read(const char* name, std::vector<std::int64_t>& value);

  void Fail(const std::string& name, const std::string& message);
  // An error that names its own field. An ok status is none.
  void Fail(const absl::Status& error);
  const absl::Status& status() const { return status_; }
  std::string Path(const char* name) const { return path_ + name; }

 private:
  void WrongType(const char* name, const char* expected, const nlohmann::ordered_json& value);

  const nlohmann::ordered_json& object_;
  std::string path_;
  absl::Status status_;
};

// "a string", "an array", … for messages. A number that IsInt64 refuses is said to be too large or
// to be written with a fraction.
const char* JsonTypeName(const nlohmann::ordered_json& value);
// True for integers that fit; 1.0 and 1e3 are floats in JSON's own terms.
bool IsInt64(const nlohmann::ordered_json& value);

}  // namespace thresher
