// Checked reads of JSON fields: errors name the place, nothing throws.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace thresher {

// A value and where it stands ("model.merges[3]"). The document outlives it.
struct JsonPlace {
  const nlohmann::json& value;
  std::string path;

  // The member `key`, or a null if there is none or this is no object.
  JsonPlace operator[](const char* key) const;
  JsonPlace Element(std::size_t index) const;  // of an array that is long enough
  bool is_null() const;

  // InvalidArgument naming the path if the value is of another type.
  absl::StatusOr<std::string> String() const;
  absl::StatusOr<std::int64_t> Int() const;
  absl::Status ExpectArray() const;
  absl::Status ExpectObject() const;
  absl::StatusOr<bool> BoolOr(bool if_null) const;
  absl::Status Error(std::string_view problem) const;      // InvalidArgument
  absl::Status Unknown(std::string_view construct) const;  // Unimplemented
};

}  // namespace thresher
