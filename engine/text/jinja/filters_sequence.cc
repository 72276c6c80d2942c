// Filters that look at a whole sequence.
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/text/jinja/attribute_getter.h"
#include "engine/text/jinja/builtins.h"
#include "engine/text/jinja/error.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/python_text.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {
namespace {

absl::StatusOr<Value> Default(Interpreter&, const Value& input, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound,
                         Bound::Bind("default", arguments, {"default_value", "boolean"}, 0));
  bool replaced = input.is_undefined() || (bound.Flag(1, false) && !Truth(input));
  if (!replaced) return input;
  return bound.Has(0) ? bound[0] : Value::String("");
}

absl::StatusOr<Value> Count(Interpreter& interpreter, const Value& input,
                            const Arguments& arguments) {
  JINJA_RETURN_IF_ERROR(Bound::Bind("length", arguments, {}, 0).status());
  if (input.is_undefined()) return Value::Integer(0);
  if (input.is_dict()) return Value::Integer(static_cast<std::int64_t>(input.dict().size()));
  if (input.is_string()) {
    JINJA_RETURN_IF_ERROR(interpreter.budget().Step(input.extent().atoms));
    return Value::Integer(Length(input.text()));
  }
  if (input.is(Kind::kLoop)) {
    return Value::Integer(static_cast<std::int64_t>(input.loop().items->items.size()));
  }
  if (input.is_sequence() && input.sequence().kind != SequenceKind::kIterator) {
    return Value::Integer(static_cast<std::int64_t>(input.sequence().items.size()));
  }
  return Failure("object of type '", TypeName(input), "' has no len()");
}

absl::StatusOr<Value> First(Interpreter& interpreter, const Value& input,
                            const Arguments& arguments) {
  JINJA_RETURN_IF_ERROR(Bound::Bind("first", arguments, {}, 0).status());
  if (input.is_sequence()) {
    Sequence& sequence = input.sequence();
    if (sequence.consumed < sequence.items.size()) {
      const Value& item = sequence.items[sequence.consumed];
      if (sequence.kind == SequenceKind::kIterator) ++sequence.consumed;
      return item;
    }
    JINJA_RETURN_IF_ERROR(sequence.failure);
    return Value::Undefined("No first item, sequence was empty.");
  }
  JINJA_ASSIGN_OR_RETURN(std::vector<Value> items, interpreter.Items(input));
  if (items.empty()) return Value::Undefined("No first item, sequence was empty.");
  return items.front();
}

absl::StatusOr<Value> Last(Interpreter& interpreter, const Value& input,
                           const Arguments& arguments) {
  JINJA_RETURN_IF_ERROR(Bound::Bind("last", arguments, {}, 0).status());
  if (input.is_sequence() && input.sequence().kind == SequenceKind::kIterator) {
    return Failure("'generator' object is not reversible");
  }
  JINJA_ASSIGN_OR_RETURN(std::vector<Value> items, interpreter.Items(input));
  if (items.empty()) return Value::Undefined("No last item, sequence was empty.");
  return items.back();
}

absl::StatusOr<Value> List(Interpreter& interpreter, const Value& input,
                           const Arguments& arguments) {
  JINJA_RETURN_IF_ERROR(Bound::Bind("list", arguments, {}, 0).status());
  JINJA_ASSIGN_OR_RETURN(std::vector<Value> items, interpreter.Items(input));
  return MakeSequence(SequenceKind::kList, std::move(items));
}

absl::StatusOr<Value> Join(Interpreter& interpreter, const Value& input,
                           const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("join", arguments, {"d", "attribute"}, 0));
  JINJA_ASSIGN_OR_RETURN(std::string separator,
                         bound.Has(0) ? interpreter.Str(bound[0]) : std::string());
  JINJA_ASSIGN_OR_RETURN(AttributeGetter getter, AttributeGetter::Make(bound[1]));
  JINJA_ASSIGN_OR_RETURN(std::vector<Value> items, interpreter.Items(input));
  std::string out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    JINJA_ASSIGN_OR_RETURN(Value item, getter.Get(interpreter, items[i]));
    JINJA_ASSIGN_OR_RETURN(std::string text, interpreter.Str(item));
    if (i > 0) out += separator;
    out += text;
    // The sum is charged once at the end; here only its bound is kept.
    if (out.size() > static_cast<std::size_t>(interpreter.budget().limits().max_text_bytes)) break;
  }
  return interpreter.NewText(std::move(out));
}

absl::StatusOr<Value> Reverse(Interpreter& interpreter, const Value& input,
                              const Arguments& arguments) {
  JINJA_RETURN_IF_ERROR(Bound::Bind("reverse", arguments, {}, 0).status());
  if (input.is_string()) {
    JINJA_RETURN_IF_ERROR(interpreter.budget().Step(input.extent().atoms));
    std::vector<char32_t> codes = CodePoints(input.text());
    std::string out;
    for (auto code = codes.rbegin(); code != codes.rend(); ++code) AppendCodePoint(*code, out);
    return interpreter.NewText(std::move(out), input.safe());
  }
  JINJA_ASSIGN_OR_RETURN(std::vector<Value> items, interpreter.Items(input));
  std::reverse(items.begin(), items.end());
  // Python cannot reverse an iterator as it stands, and makes a list of it first.
  bool is_iterator = input.is_sequence() && input.sequence().kind == SequenceKind::kIterator;
  return MakeSequence(is_iterator ? SequenceKind::kList : SequenceKind::kIterator,
                      std::move(items));
}

// Sorts items by their keys, stable; InvalidArgument if two keys have no order.
absl::Status SortBy(Interpreter& interpreter, std::vector<std::pair<Value, Value>>& keyed,
                    bool reverse) {
  std::int64_t atoms = 1;
  for (const auto& [key, item] : keyed) atoms = std::max(atoms, key.extent().atoms);
  std::int64_t rounds = 1;
  while ((std::size_t{1} << rounds) < keyed.size()) ++rounds;
  JINJA_RETURN_IF_ERROR(
      interpreter.budget().Step(static_cast<std::int64_t>(keyed.size()) * rounds * atoms));
  absl::Status status;
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& left, const auto& right) {
    absl::StatusOr<bool> less =
        reverse ? Less(right.first, left.first) : Less(left.first, right.first);
    if (!less.ok()) status = less.status();
    return less.value_or(false);
  });
  return status;
}

// One for each attribute between commas. Keys are lists even of one, as in Jinja: two that are
// equal need no order.
absl::StatusOr<std::vector<AttributeGetter>> SortGetters(const Value& attribute, bool ignore_case) {
  std::vector<AttributeGetter> getters;
  if (!attribute.is_string()) {
    JINJA_ASSIGN_OR_RETURN(AttributeGetter getter, AttributeGetter::Make(attribute, ignore_case));
    getters.push_back(std::move(getter));
    return getters;
  }
  for (std::string_view rest = attribute.text(); true;) {
    std::size_t comma = rest.find(',');
    JINJA_ASSIGN_OR_RETURN(
        AttributeGetter getter,
        AttributeGetter::Make(Value::String(std::string(rest.substr(0, comma))), ignore_case));
    getters.push_back(std::move(getter));
    if (comma == std::string_view::npos) return getters;
    rest.remove_prefix(comma + 1);
  }
}

absl::StatusOr<Value> Sort(Interpreter& interpreter, const Value& input,
                           const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(
      Bound bound, Bound::Bind("sort", arguments, {"reverse", "case_sensitive", "attribute"}, 0));
  JINJA_ASSIGN_OR_RETURN(std::vector<AttributeGetter> getters,
                         SortGetters(bound[2], !bound.Flag(1, false)));
  JINJA_ASSIGN_OR_RETURN(std::vector<Value> items, interpreter.Items(input));
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items) {
    std::vector<Value> parts;
    for (const AttributeGetter& getter : getters) {
      JINJA_ASSIGN_OR_RETURN(Value part, getter.Get(interpreter, item));
      parts.push_back(std::move(part));
    }
    JINJA_ASSIGN_OR_RETURN(Value key, MakeSequence(SequenceKind::kList, std::move(parts)));
    keyed.emplace_back(std::move(key), std::move(item));
  }
  JINJA_RETURN_IF_ERROR(SortBy(interpreter, keyed, bound.Flag(0, false)));
  for (std::size_t i = 0; i < keyed.size(); ++i) items[i] = std::move(keyed[i].second);
  return MakeSequence(SequenceKind::kList, std::move(items));
}

absl::StatusOr<Value> DictSort(Interpreter& interpreter, const Value& input,
                               const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(
      Bound bound, Bound::Bind("dictsort", arguments, {"case_sensitive", "by", "reverse"}, 0));
  JINJA_ASSIGN_OR_RETURN(std::string by, bound.Text(1, "key"));
  if (by != "key" && by != "value")
    return Failure("You can only sort by either \"key\" or \"value\"");
  if (!input.is_dict()) return Failure("dictsort needs a mapping, not '", TypeName(input), "'");
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, value] : input.dict().entries()) {
    Value sort_key = by == "key" ? key : value;
    if (sort_key.is_string() && !bound.Flag(0, false)) {
      JINJA_ASSIGN_OR_RETURN(sort_key, interpreter.NewText(Lower(sort_key.text())));
    }
    JINJA_ASSIGN_OR_RETURN(Value pair, MakeSequence(SequenceKind::kTuple, {key, value}));
    keyed.emplace_back(std::move(sort_key), std::move(pair));
  }
  JINJA_RETURN_IF_ERROR(SortBy(interpreter, keyed, bound.Flag(2, false)));
  std::vector<Value> items;
  for (auto& [key, pair] : keyed) items.push_back(std::move(pair));
  return MakeSequence(SequenceKind::kList, std::move(items));
}

absl::StatusOr<Value> Unique(Interpreter& interpreter, const Value& input,
                             const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound,
                         Bound::Bind("unique", arguments, {"case_sensitive", "attribute"}, 0));
  JINJA_ASSIGN_OR_RETURN(AttributeGetter getter,
                         AttributeGetter::Make(bound[1], !bound.Flag(0, false)));
  std::vector<Value> kept;
  absl::Status status = [&] {
    JINJA_ASSIGN_OR_RETURN(std::vector<Value> items, interpreter.Items(input));
    Dict seen;
    for (Value& item : items) {
      JINJA_ASSIGN_OR_RETURN(Value key, getter.Get(interpreter, item));
      // Keys that are no strings are compared one by one.
      if (!key.is_string()) {
        JINJA_RETURN_IF_ERROR(interpreter.budget().Step(static_cast<std::int64_t>(seen.size())));
      }
      if (seen.Find(key) != nullptr) continue;
      JINJA_RETURN_IF_ERROR(seen.Set(std::move(key), Value::None()));
      kept.push_back(std::move(item));
    }
    return absl::OkStatus();
  }();
  return MakeIterator(std::move(kept), std::move(status));
}

absl::StatusOr<Value> Sum(Interpreter& interpreter, const Value& input,
                          const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("sum", arguments, {"attribute", "start"}, 0));
  JINJA_ASSIGN_OR_RETURN(AttributeGetter getter, AttributeGetter::Make(bound[0]));
  JINJA_ASSIGN_OR_RETURN(std::vector<Value> items, interpreter.Items(input));
  Value total = bound.Has(1) ? bound[1] : Value::Integer(0);
  for (const Value& item : items) {
    JINJA_ASSIGN_OR_RETURN(Value value, getter.Get(interpreter, item));
    JINJA_ASSIGN_OR_RETURN(total, Apply(interpreter.budget(), BinaryOperator::kAdd, total, value));
  }
  return total;
}

template <bool kLargest>
absl::StatusOr<Value> Extreme(Interpreter& interpreter, const Value& input,
                              const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound,
                         Bound::Bind("min or max", arguments, {"case_sensitive", "attribute"}, 0));
  JINJA_ASSIGN_OR_RETURN(AttributeGetter getter,
                         AttributeGetter::Make(bound[1], !bound.Flag(0, false)));
  JINJA_ASSIGN_OR_RETURN(std::vector<Value> items, interpreter.Items(input));
  if (items.empty()) return Value::Undefined("No aggregated item, sequence was empty.");
  Value best = items[0];
  JINJA_ASSIGN_OR_RETURN(Value best_key, getter.Get(interpreter, items[0]));
  for (std::size_t i = 1; i < items.size(); ++i) {
    JINJA_ASSIGN_OR_RETURN(Value key, getter.Get(interpreter, items[i]));
    JINJA_ASSIGN_OR_RETURN(bool better, kLargest ? Less(best_key, key) : Less(key, best_key));
    if (!better) continue;
    best = items[i];
    best_key = std::move(key);
  }
  return best;
}

absl::StatusOr<Value> Items(Interpreter&, const Value& input, const Arguments& arguments) {
  JINJA_RETURN_IF_ERROR(Bound::Bind("items", arguments, {}, 0).status());
  std::vector<Value> pairs;
  if (!input.is_undefined()) {
    if (!input.is_dict()) {
      return MakeIterator({}, Failure("Can only get item pairs from a mapping."));
    }
    for (const auto& [key, value] : input.dict().entries()) {
      JINJA_ASSIGN_OR_RETURN(Value pair, MakeSequence(SequenceKind::kTuple, {key, value}));
      pairs.push_back(std::move(pair));
    }
  }
  return MakeSequence(SequenceKind::kIterator, std::move(pairs));
}

constexpr FilterRow kRows[] = {
    {"count", &Count},     {"d", &Default},   {"default", &Default},   {"dictsort", &DictSort},
    {"first", &First},     {"items", &Items}, {"join", &Join},         {"last", &Last},
    {"length", &Count},    {"list", &List},   {"max", &Extreme<true>}, {"min", &Extreme<false>},
    {"reverse", &Reverse}, {"sort", &Sort},   {"sum", &Sum},           {"unique", &Unique},
};

}  // namespace

absl::Span<const FilterRow> SequenceFilters() { return kRows; }

}  // namespace thresher::jinja
