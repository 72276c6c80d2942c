// What follows `is`.
#include <cmath>

#include "engine/text/jinja/builtins.h"
#include "engine/text/jinja/error.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/python_text.h"
#include "engine/text/jinja/status_macros.h"
#include "engine/text/jinja/unicode_tables.h"

namespace thresher::jinja {
namespace {

using Result = absl::StatusOr<bool>;
using Predicate = bool (*)(const Value&);

template <Predicate kHolds>
Result Plain(Interpreter&, const Value& input, const Arguments& arguments) {
  JINJA_RETURN_IF_ERROR(Bound::Bind("test", arguments, {}, 0).status());
  return kHolds(input);
}

bool IsDefined(const Value& value) { return !value.is_undefined(); }
bool IsUndefined(const Value& value) { return value.is_undefined(); }
bool IsNone(const Value& value) { return value.is_none(); }
bool IsBoolean(const Value& value) { return value.is(Kind::kBool); }
bool IsTrue(const Value& value) { return value.is(Kind::kBool) && value.boolean(); }
bool IsFalse(const Value& value) { return value.is(Kind::kBool) && !value.boolean(); }
bool IsInteger(const Value& value) {
  return value.is(Kind::kInteger) || value.is(Kind::kBigInteger);
}
bool IsFloat(const Value& value) { return value.is(Kind::kFloat); }
bool IsNumber(const Value& value) { return value.is_number(); }
bool IsString(const Value& value) { return value.is_string(); }
bool IsMapping(const Value& value) { return value.is_dict(); }

bool IsIterable(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_dict() || value.is_sequence() ||
         value.is(Kind::kLoop);
}

// Has a length and subscripts. Jinja's Undefined and dicts do.
bool IsSequence(const Value& value) {
  if (!value.is_sequence()) return value.is_undefined() || value.is_string() || value.is_dict();
  SequenceKind kind = value.sequence().kind;
  return kind == SequenceKind::kList || kind == SequenceKind::kTuple ||
         kind == SequenceKind::kRange;
}

bool IsCallable(const Value& value) {
  return value.is_undefined() || value.is(Kind::kFunction) || value.is(Kind::kMethod) ||
         value.is(Kind::kMacro) || value.is(Kind::kLoop);
}

bool IsEscaped(const Value& value) { return value.is_string() && value.safe(); }

// str.islower and str.isupper of the text of any value.
template <ClassFlag kWanted>
Result Cased(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  JINJA_RETURN_IF_ERROR(Bound::Bind("test", arguments, {}, 0).status());
  JINJA_ASSIGN_OR_RETURN(std::string text, interpreter.Str(input));
  bool any = false;
  for (std::size_t position = 0; position < text.size();) {
    std::uint16_t flags = ClassOf(NextCodePoint(text, position));
    if ((flags & (kLower | kUpper | kTitle) & ~kWanted) != 0) return false;
    any = any || (flags & kWanted) != 0;
  }
  return any;
}

Result DivisibleBy(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("divisibleby", arguments, {"num"}, 1));
  JINJA_ASSIGN_OR_RETURN(Value rest,
                         Apply(interpreter.budget(), BinaryOperator::kModulo, input, bound[0]));
  return Equal(rest, Value::Integer(0));
}

template <int kRest>
Result Parity(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  JINJA_RETURN_IF_ERROR(Bound::Bind("odd or even", arguments, {}, 0).status());
  JINJA_ASSIGN_OR_RETURN(
      Value rest, Apply(interpreter.budget(), BinaryOperator::kModulo, input, Value::Integer(2)));
  return Equal(rest, Value::Integer(kRest));
}

template <Comparison kComparison>
Result Compared(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("test", arguments, {"other"}, 1));
  return Holds(interpreter.budget(), kComparison, input, bound[0]);
}

Result SameAs(Interpreter&, const Value& input, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("sameas", arguments, {"other"}, 1));
  return input.Same(bound[0]);
}

constexpr TestRow kRows[] = {
    {"!=", &Compared<Comparison::kNotEqual>},
    {"<", &Compared<Comparison::kLess>},
    {"<=", &Compared<Comparison::kLessOrEqual>},
    {"==", &Compared<Comparison::kEqual>},
    {">", &Compared<Comparison::kGreater>},
    {">=", &Compared<Comparison::kGreaterOrEqual>},
    {"boolean", &Plain<IsBoolean>},
    {"callable", &Plain<IsCallable>},
    {"defined", &Plain<IsDefined>},
    {"divisibleby", &DivisibleBy},
    {"eq", &Compared<Comparison::kEqual>},
    {"equalto", &Compared<Comparison::kEqual>},
    {"escaped", &Plain<IsEscaped>},
    {"even", &Parity<0>},
    {"false", &Plain<IsFalse>},
    {"float", &Plain<IsFloat>},
    {"ge", &Compared<Comparison::kGreaterOrEqual>},
    {"greaterthan", &Compared<Comparison::kGreater>},
    {"gt", &Compared<Comparison::kGreater>},
    {"in", &Compared<Comparison::kIn>},
    {"integer", &Plain<IsInteger>},
    {"iterable", &Plain<IsIterable>},
    {"le", &Compared<Comparison::kLessOrEqual>},
    {"lessthan", &Compared<Comparison::kLess>},
    {"lower", &Cased<kLower>},
    {"lt", &Compared<Comparison::kLess>},
    {"mapping", &Plain<IsMapping>},
    {"ne", &Compared<Comparison::kNotEqual>},
    {"none", &Plain<IsNone>},
    {"number", &Plain<IsNumber>},
    {"odd", &Parity<1>},
    {"sameas", &SameAs},
    {"sequence", &Plain<IsSequence>},
    {"string", &Plain<IsString>},
    {"true", &Plain<IsTrue>},
    {"undefined", &Plain<IsUndefined>},
    {"upper", &Cased<kUpper>},
};

}  // namespace

absl::Span<const TestRow> Tests() { return kRows; }

}  // namespace thresher::jinja
