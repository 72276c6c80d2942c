// Methods of strings, by name.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/text/jinja/arguments.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/value.h"

namespace thresher::jinja {

using StringMethodCode = absl::StatusOr<Value> (*)(Interpreter&, const Value& self,
                                                   const Arguments&);
struct StringMethodRow {
  std::string_view name;
  StringMethodCode code;
};

// Those that change a text, and those that search or ask something about one.
absl::Span<const StringMethodRow> EditMethods();
absl::Span<const StringMethodRow> SearchMethods();

}  // namespace thresher::jinja
