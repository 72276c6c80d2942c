// What `object.name` and `object[key]` give.
#include <algorithm>
#include <array>
#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/text/jinja/builtins.h"
#include "engine/text/jinja/error.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/python_text.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {
namespace {

using Names = absl::Span<const std::string_view>;

constexpr std::string_view kStringMethods[] = {
    "capitalize",   "center",  "count",      "endswith",   "find",    "index",      "isalnum",
    "isalpha",      "isascii", "isdecimal",  "isdigit",    "islower", "isspace",    "istitle",
    "isupper",      "join",    "ljust",      "lower",      "lstrip",  "partition",  "removeprefix",
    "removesuffix", "replace", "rfind",      "rindex",     "rjust",   "rpartition", "rsplit",
    "rstrip",       "split",   "splitlines", "startswith", "strip",   "swapcase",   "title",
    "upper",        "zfill"};
constexpr std::string_view kListMethods[] = {"copy", "count", "index"};
constexpr std::string_view kTupleMethods[] = {"count", "index"};
constexpr std::string_view kDictMethods[] = {"copy", "get", "items", "keys", "values"};
constexpr std::string_view kLoopMethods[] = {"changed", "cycle"};
// They would change a list or dict, which Jinja's immutable sandbox forbids.
constexpr std::string_view kListChanges[] = {"append", "clear",  "extend",  "insert",
                                             "pop",    "remove", "reverse", "sort"};
constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kMissingMethods[] = {
    "casefold",     "encode",    "expandtabs",  "format",    "format_map", "fromkeys",
    "isidentifier", "isnumeric", "isprintable", "maketrans", "translate"};

bool Has(Names names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Names MethodsOf(const Value& object) {
  switch (object.kind()) {
    case Kind::kString:
      return kStringMethods;
    case Kind::kDict:
      return kDictMethods;
    case Kind::kLoop:
      return kLoopMethods;
    case Kind::kSequence:
      if (object.sequence().kind == SequenceKind::kList) return kListMethods;
      if (object.sequence().kind == SequenceKind::kTuple) return kTupleMethods;
      if (object.sequence().kind == SequenceKind::kRange) return kTupleMethods;
      return {};
    default:
      return {};
  }
}

Names ChangesOf(const Value& object) {
  if (object.is_dict()) return kDictChanges;
  if (object.is_sequence() && object.sequence().kind == SequenceKind::kList) return kListChanges;
  return {};
}

Value LoopAttribute(const LoopObject& loop, std::string_view name) {
  const std::vector<Value>& items = loop.items->items;
  const auto index = static_cast<std::int64_t>(loop.index);
  const auto length = static_cast<std::int64_t>(items.size());
  if (name == "index") return Value::Integer(index + 1);
  if (name == "index0") return Value::Integer(index);
  if (name == "revindex") return Value::Integer(length - index);
  if (name == "revindex0") return Value::Integer(length - index - 1);
  if (name == "first") return Value::Bool(index == 0);
  if (name == "last") return Value::Bool(index + 1 == length);
  if (name == "length") return Value::Integer(length);
  // Depth counts recursive loops, of which there are none.
  if (name == "depth") return Value::Integer(1);
  if (name == "depth0") return Value::Integer(0);
  if (name == "previtem") {
    return index > 0 ? items[index - 1] : Value::Undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return index + 1 < length ? items[index + 1] : Value::Undefined("there is no next item");
  }
  return Value();
}

// What Python's getattr finds; empty if nothing.
std::optional<Value> Own(const Value& object, std::string_view name) {
  if (object.is(Kind::kNamespace)) {
    const Value* value = object.space().attributes.Find(name);
    if (value != nullptr) return *value;
  }
  if (object.is(Kind::kLoop)) {
    Value value = LoopAttribute(object.loop(), name);
    if (!value.is_undefined() || name == "previtem" || name == "nextitem") return value;
  }
  if (object.is(Kind::kMacro) && name == "name") {
    return Value::String(object.macro()->definition->name);
  }
  if (Has(MethodsOf(object), name)) {
    return Value::Of(std::make_shared<const MethodObject>(MethodObject{object, std::string(name)}));
  }
  if (Has(ChangesOf(object), name)) {
    return Value::Undefined(absl::StrCat("access to attribute '", std::string(name), "' of '",
                                         TypeName(object), "' object is unsafe"));
  }
  return std::nullopt;
}

// What Python's object[key] finds; empty if nothing.
std::optional<Value> Part(const Value& object, const Value& key) {
  if (object.is_dict()) {
    const Value* value = object.dict().Find(key);
    if (value != nullptr) return *value;
    return std::nullopt;
  }
  if (!key.is_integral()) return std::nullopt;
  std::int64_t index = key.integer();
  if (object.is_string()) {
    const std::string& text = object.text();
    std::int64_t length = Length(text);
    if (index < 0) index += length;
    if (index < 0 || index >= length) return std::nullopt;
    std::size_t start = Offset(text, index);
    std::size_t end = start;
    NextCodePoint(text, end);
    return Value::String(text.substr(start, end - start), object.safe());
  }
  if (!object.is_sequence()) return std::nullopt;
  const Sequence& sequence = object.sequence();
  bool indexed = sequence.kind == SequenceKind::kList || sequence.kind == SequenceKind::kTuple ||
                 sequence.kind == SequenceKind::kRange;
  const auto length = static_cast<std::int64_t>(sequence.items.size());
  if (index < 0) index += length;
  if (!indexed || index < 0 || index >= length) return std::nullopt;
  return sequence.items[index];
}

absl::Status UsedUndefined(const Value& object) {
  return Failure(object.why().empty() ? "an undefined value is used" : object.why());
}

std::string Missing(const Value& object, std::string_view name) {
  return absl::StrCat("'", TypeName(object), " object' has no attribute '", std::string(name), "'");
}

}  // namespace

bool IsMissingMethod(std::string_view name) { return Has(kMissingMethods, name); }

absl::StatusOr<Value> Interpreter::GetAttribute(const Value& object, std::string_view name) {
  if (object.is_undefined()) return UsedUndefined(object);
  if (std::optional<Value> value = Own(object, name)) return *value;
  if (object.is_dict()) {
    if (const Value* value = object.dict().Find(name); value != nullptr) return *value;
  }
  return Value::Undefined(Missing(object, name));
}

absl::StatusOr<Value> Interpreter::GetItem(const Value& object, const Value& key) {
  if (object.is_undefined()) return UsedUndefined(object);
  if (object.is_string()) {
    JINJA_RETURN_IF_ERROR(budget_.Step(object.extent().atoms));
  }
  if (std::optional<Value> value = Part(object, key)) return *value;
  if (key.is_string()) {
    if (std::optional<Value> value = Own(object, key.text())) return *value;
    return Value::Undefined(Missing(object, key.text()));
  }
  JINJA_ASSIGN_OR_RETURN(std::string shown, Str(key));
  return Value::Undefined(absl::StrCat(TypeName(object), " object has no element ", shown));
}

}  // namespace thresher::jinja
