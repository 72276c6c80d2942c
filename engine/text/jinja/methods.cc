#include "engine/text/jinja/methods.h"

#include <algorithm>

#include "engine/text/jinja/builtins.h"
#include "engine/text/jinja/error.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {
namespace {

absl::StatusOr<Value> DictMethod(Interpreter& interpreter, const Value& self, std::string_view name,
                                 const Arguments& arguments) {
  const Dict& dict = self.dict();
  if (name == "get") {
    JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("get", arguments, {"key", "default"}, 1));
    // Also refuses a key that cannot be hashed.
    JINJA_ASSIGN_OR_RETURN(bool found, Contains(interpreter.budget(), self, bound[0]));
    if (found) return *dict.Find(bound[0]);
    return bound.Has(1) ? bound[1] : Value::None();
  }
  JINJA_RETURN_IF_ERROR(Bound::Bind(name, arguments, {}, 0).status());
  if (name == "copy") return self;  // Nothing can change either of them.
  JINJA_RETURN_IF_ERROR(interpreter.budget().Step(static_cast<std::int64_t>(dict.size())));
  std::vector<Value> items;
  items.reserve(dict.size());
  for (const auto& [key, value] : dict.entries()) {
    if (name == "keys") {
      items.push_back(key);
    } else if (name == "values") {
      items.push_back(value);
    } else {
      JINJA_ASSIGN_OR_RETURN(Value pair, MakeSequence(SequenceKind::kTuple, {key, value}));
      items.push_back(std::move(pair));
    }
  }
  SequenceKind kind = name == "keys"     ? SequenceKind::kKeys
                      : name == "values" ? SequenceKind::kValues
                                         : SequenceKind::kItems;
  return MakeSequence(kind, std::move(items));
}

absl::StatusOr<Value> ListMethod(Interpreter& interpreter, const Value& self, std::string_view name,
                                 const Arguments& arguments) {
  const Sequence& sequence = self.sequence();
  JINJA_RETURN_IF_ERROR(interpreter.budget().Step(sequence.extent.atoms));
  if (name == "copy") {
    JINJA_RETURN_IF_ERROR(Bound::Bind("copy", arguments, {}, 0).status());
    return MakeSequence(sequence.kind, sequence.items);
  }
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind(name, arguments, {"value"}, 1));
  auto equals = [&](const Value& item) { return Equal(item, bound[0]); };
  if (name == "count") {
    return Value::Integer(std::count_if(sequence.items.begin(), sequence.items.end(), equals));
  }
  auto found = std::find_if(sequence.items.begin(), sequence.items.end(), equals);
  if (found == sequence.items.end()) return Failure("the value is not in the list");
  return Value::Integer(found - sequence.items.begin());
}

absl::StatusOr<Value> LoopMethod(LoopObject& loop, std::string_view name,
                                 const Arguments& arguments) {
  if (!arguments.named.empty()) return Failure(std::string(name), "() takes no keyword arguments");
  if (name == "cycle") {
    if (arguments.positional.empty()) return Failure("no items for cycling given");
    return arguments.positional[loop.index % arguments.positional.size()];
  }
  bool same = loop.changed_called && loop.last_changed.size() == arguments.positional.size() &&
              std::equal(loop.last_changed.begin(), loop.last_changed.end(),
                         arguments.positional.begin(), &Equal);
  loop.changed_called = true;
  // A loop that remembers itself would never be freed.
  for (const Value& value : arguments.positional) {
    if (value.extent().depth > 0 || value.is(Kind::kMacro)) {
      return Failure("loop.changed() takes no lists, dicts or loops here");
    }
  }
  loop.last_changed = arguments.positional;
  return Value::Bool(!same);
}

absl::StatusOr<Value> StringMethod(Interpreter& interpreter, const MethodObject& method,
                                   const Arguments& arguments) {
  for (absl::Span<const StringMethodRow> rows : {EditMethods(), SearchMethods()}) {
    for (const StringMethodRow& row : rows) {
      if (row.name != method.name) continue;
      // Every method reads its text from end to end, or builds another.
      JINJA_RETURN_IF_ERROR(
          interpreter.budget().Text(static_cast<std::int64_t>(method.self.text().size())));
      return row.code(interpreter, method.self, arguments);
    }
  }
  return Failure("the method ", method.name, " is not supported");
}

}  // namespace

absl::StatusOr<Value> CallMethod(Interpreter& interpreter, const MethodObject& method,
                                 const Arguments& arguments) {
  switch (method.self.kind()) {
    case Kind::kString:
      return StringMethod(interpreter, method, arguments);
    case Kind::kDict:
      return DictMethod(interpreter, method.self, method.name, arguments);
    case Kind::kLoop:
      return LoopMethod(method.self.loop(), method.name, arguments);
    default:
      return ListMethod(interpreter, method.self, method.name, arguments);
  }
}

}  // namespace thresher::jinja
