// The `attribute=` of filters: "a.b.0" walks item by item.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/value.h"

namespace thresher::jinja {

class AttributeGetter {
 public:
  // From a string, an integer, or none (the item itself). With ignore_case strings are lowered.
  static absl::StatusOr<AttributeGetter> Make(const Value& attribute, bool ignore_case = false);
  absl::StatusOr<Value> Get(Interpreter& interpreter, const Value& item) const;
  // Undefined results become this one.
  void set_fallback(Value fallback) { fallback_ = std::move(fallback); }

 private:
  std::vector<Value> path_;
  bool ignore_case_ = false;
  Value fallback_;
};

}  // namespace thresher::jinja
