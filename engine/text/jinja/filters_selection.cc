// map, select and their kin. They give iterators, which are walked once, as Jinja's generators.
#include <functional>

#include "engine/text/jinja/attribute_getter.h"
#include "engine/text/jinja/builtins.h"
#include "engine/text/jinja/error.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {
namespace {

// The arguments after the first `count` positional ones.
Arguments Rest(const Arguments& arguments, std::size_t count) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                            count, arguments.positional.size())),
                         arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

absl::StatusOr<std::string> NameAt(const Arguments& arguments, std::size_t index) {
  const Value& name = arguments.positional[index];
  if (name.is_string()) return name.text();
  return Failure("the name of a filter or test must be a string, not '", TypeName(name), "'");
}

// Replaces each item by what `map` makes of it.
absl::StatusOr<Value> MapItems(Interpreter& interpreter, const Value& input,
                               const std::function<absl::StatusOr<Value>(const Value&)>& map) {
  std::vector<Value> mapped;
  absl::Status status = [&] {
    JINJA_ASSIGN_OR_RETURN(std::vector<Value> items, interpreter.Items(input));
    for (const Value& item : items) {
      JINJA_ASSIGN_OR_RETURN(Value value, map(item));
      mapped.push_back(std::move(value));
    }
    return absl::OkStatus();
  }();
  return MakeIterator(std::move(mapped), std::move(status));
}

absl::StatusOr<Value> MapAttribute(Interpreter& interpreter, const Value& input,
                                   const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("map", arguments, {"attribute", "default"}, 1));
  JINJA_ASSIGN_OR_RETURN(AttributeGetter getter, AttributeGetter::Make(bound[0]));
  if (bound.Has(1)) getter.set_fallback(bound[1]);
  return MapItems(interpreter, input,
                  [&](const Value& item) { return getter.Get(interpreter, item); });
}

absl::StatusOr<Value> Map(Interpreter& interpreter, const Value& input,
                          const Arguments& arguments) {
  // What is false has no items, whatever it is.
  if (!Truth(input)) return MakeIterator({}, absl::OkStatus());
  if (arguments.positional.empty()) return MapAttribute(interpreter, input, arguments);
  JINJA_ASSIGN_OR_RETURN(std::string name, NameAt(arguments, 0));
  const FilterRow* filter = FindFilter(name);
  if (filter == nullptr) return MakeIterator({}, Failure("No filter named '", name, "'."));
  const Arguments rest = Rest(arguments, 1);
  // A filter may be map itself, on a list in a list.
  JINJA_RETURN_IF_ERROR(interpreter.budget().Enter());
  absl::StatusOr<Value> mapped = MapItems(
      interpreter, input, [&](const Value& item) { return filter->code(interpreter, item, rest); });
  interpreter.budget().Leave();
  return mapped;
}

// The items whose value, by `getter`, passes the test named at `index`, or is true if none is
// named.
absl::StatusOr<Value> Choose(Interpreter& interpreter, const Value& input,
                             const Arguments& arguments, const AttributeGetter& getter,
                             std::size_t index, bool wanted) {
  if (!Truth(input)) return MakeIterator({}, absl::OkStatus());
  const TestRow* test = nullptr;
  if (arguments.positional.size() > index) {
    JINJA_ASSIGN_OR_RETURN(std::string name, NameAt(arguments, index));
    test = FindTest(name);
    if (test == nullptr) return MakeIterator({}, Failure("No test named '", name, "'."));
  }
  const Arguments rest = Rest(arguments, index + 1);
  std::vector<Value> kept;
  absl::Status status = [&] {
    JINJA_ASSIGN_OR_RETURN(std::vector<Value> items, interpreter.Items(input));
    for (Value& item : items) {
      JINJA_ASSIGN_OR_RETURN(Value value, getter.Get(interpreter, item));
      bool passes = Truth(value);
      if (test != nullptr) {
        JINJA_ASSIGN_OR_RETURN(passes, test->code(interpreter, value, rest));
      }
      if (passes == wanted) kept.push_back(std::move(item));
    }
    return absl::OkStatus();
  }();
  return MakeIterator(std::move(kept), std::move(status));
}

template <bool kWanted>
absl::StatusOr<Value> Select(Interpreter& interpreter, const Value& input,
                             const Arguments& arguments) {
  return Choose(interpreter, input, arguments, AttributeGetter(), 0, kWanted);
}

template <bool kWanted>
absl::StatusOr<Value> SelectAttribute(Interpreter& interpreter, const Value& input,
                                      const Arguments& arguments) {
  if (!Truth(input)) return MakeIterator({}, absl::OkStatus());
  if (arguments.positional.empty()) {
    return MakeIterator({}, Failure("Missing parameter for attribute name"));
  }
  JINJA_ASSIGN_OR_RETURN(AttributeGetter getter, AttributeGetter::Make(arguments.positional[0]));
  return Choose(interpreter, input, arguments, getter, 1, kWanted);
}

constexpr FilterRow kRows[] = {
    {"map", &Map},
    {"reject", &Select<false>},
    {"rejectattr", &SelectAttribute<false>},
    {"select", &Select<true>},
    {"selectattr", &SelectAttribute<true>},
};

}  // namespace

absl::Span<const FilterRow> SelectionFilters() { return kRows; }

}  // namespace thresher::jinja
