#include "engine/text/jinja/attribute_getter.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "engine/text/jinja/error.h"
#include "engine/text/jinja/python_text.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {

absl::StatusOr<AttributeGetter> AttributeGetter::Make(const Value& attribute, bool ignore_case) {
  AttributeGetter getter;
  getter.ignore_case_ = ignore_case;
  if (attribute.is_none() || attribute.is_undefined()) return getter;
  if (!attribute.is_string()) {
    if (!attribute.is_integral()) {
      return Failure("an attribute must be a string or an integer, not '", TypeName(attribute),
                     "'");
    }
    getter.path_.push_back(attribute);
    return getter;
  }
  std::string_view rest = attribute.text();
  while (true) {
    std::size_t dot = rest.find('.');
    std::string part(rest.substr(0, dot));
    std::int64_t index = 0;
    bool digits = !part.empty() && std::all_of(part.begin(), part.end(),
                                               [](char c) { return c >= '0' && c <= '9'; });
    if (digits && absl::SimpleAtoi(part, &index)) {
      getter.path_.push_back(Value::Integer(index));
    } else {
      getter.path_.push_back(Value::String(std::move(part)));
    }
    if (dot == std::string_view::npos) return getter;
    rest.remove_prefix(dot + 1);
  }
}

absl::StatusOr<Value> AttributeGetter::Get(Interpreter& interpreter, const Value& item) const {
  JINJA_RETURN_IF_ERROR(interpreter.budget().Step());
  Value value = item;
  for (const Value& part : path_) {
    JINJA_ASSIGN_OR_RETURN(value, interpreter.GetItem(value, part));
    if (value.is_undefined() && !fallback_.is_undefined()) value = fallback_;
  }
  if (ignore_case_ && value.is_string()) return interpreter.NewText(Lower(value.text()));
  return value;
}

}  // namespace thresher::jinja
