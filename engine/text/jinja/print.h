// Values as Python's str, repr and json.dumps show them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "engine/text/jinja/budget.h"
#include "engine/text/jinja/value.h"

namespace thresher::jinja {

// Append to `out`; charged, and InvalidArgument past the limit of one text.
absl::Status AppendStr(Budget& budget, const Value& value, std::string& out);
absl::Status AppendRepr(Budget& budget, const Value& value, std::string& out);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // of one level; absent: all in one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
// InvalidArgument for what JSON cannot hold.
absl::Status AppendJson(Budget& budget, const Value& value, const JsonStyle& style,
                        std::string& out);

}  // namespace thresher::jinja
