#include "engine/text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "engine/text/jinja/error.h"
#include "engine/text/jinja/escape.h"
#include "engine/text/jinja/python_text.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {
namespace {

constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};

absl::Status Mismatch(std::string_view op, const Value& left, const Value& right) {
  for (const Value* side : {&left, &right}) {
    if (side->is_undefined()) {
      return Failure(side->why().empty() ? "an undefined value is used" : side->why());
    }
  }
  return Failure("unsupported operand types for ", std::string(op), ": '", TypeName(left),
                 "' and '", TypeName(right), "'");
}

absl::Status Overflow() { return Failure("an integer that does not fit 64 bits"); }

absl::StatusOr<Value> IntegerPower(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return Failure("0 cannot be raised to a negative power");
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return Overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return Overflow();
  }
  return Value::Integer(result);
}

absl::StatusOr<Value> IntegerArithmetic(BinaryOperator op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case BinaryOperator::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return Overflow();
      return Value::Integer(result);
    case BinaryOperator::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) return Overflow();
      return Value::Integer(result);
    case BinaryOperator::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) return Overflow();
      return Value::Integer(result);
    case BinaryOperator::kPower:
      return IntegerPower(a, b);
    default:
      break;
  }
  if (b == 0) return Failure("division by zero");
  if (op == BinaryOperator::kDivide) {
    return Value::Float(static_cast<double>(static_cast<long double>(a) / b));
  }
  if (b == -1) {  // The one quotient that can overflow.
    if (op == BinaryOperator::kModulo) return Value::Integer(0);
    if (a == std::numeric_limits<std::int64_t>::min()) return Overflow();
    return Value::Integer(-a);
  }
  // Python rounds down; the remainder has the divisor's sign.
  std::int64_t quotient = a / b;
  std::int64_t remainder = a % b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) {
    --quotient;
    remainder += b;
  }
  return Value::Integer(op == BinaryOperator::kModulo ? remainder : quotient);
}

absl::StatusOr<Value> FloatArithmetic(BinaryOperator op, double a, double b) {
  switch (op) {
    case BinaryOperator::kAdd:
      return Value::Float(a + b);
    case BinaryOperator::kSubtract:
      return Value::Float(a - b);
    case BinaryOperator::kMultiply:
      return Value::Float(a * b);
    case BinaryOperator::kPower: {
      if (a == 0 && b < 0) return Failure("0.0 cannot be raised to a negative power");
      double power = std::pow(a, b);
      if (std::isnan(power) && !std::isnan(a) && !std::isnan(b)) {
        return Failure("a power that is a complex number");
      }
      if (std::isinf(power) && !std::isinf(a) && !std::isinf(b)) {
        return Failure("a power that is out of range");
      }
      return Value::Float(power);
    }
    default:
      break;
  }
  if (b == 0) return Failure("float division by zero");
  if (op == BinaryOperator::kDivide) return Value::Float(a / b);
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) {
    remainder += b;
    quotient -= 1;
  } else if (remainder == 0) {
    remainder = std::copysign(0.0, b);
  }
  if (op == BinaryOperator::kModulo) return Value::Float(remainder);
  if (quotient == 0) return Value::Float(std::copysign(0.0, a / b));
  double floored = std::floor(quotient);
  return Value::Float(quotient - floored > 0.5 ? floored + 1 : floored);
}

absl::StatusOr<Value> Repeat(Budget& budget, const Value& repeated, std::int64_t count) {
  if (count < 0) count = 0;
  if (repeated.is_string()) {
    std::int64_t bytes = 0;
    const std::string& text = repeated.text();
    if (__builtin_mul_overflow(static_cast<std::int64_t>(text.size()), count, &bytes)) {
      bytes = std::numeric_limits<std::int64_t>::max() / 2;
    }
    JINJA_RETURN_IF_ERROR(budget.Text(bytes));
    std::string out;
    out.reserve(bytes);
    if (!text.empty()) {
      for (; count > 0; --count) out += text;
    }
    return Value::String(std::move(out), repeated.safe());
  }
  const Sequence& sequence = repeated.sequence();
  std::int64_t num_items = 0;
  if (__builtin_mul_overflow(static_cast<std::int64_t>(sequence.items.size()), count, &num_items)) {
    num_items = budget.limits().max_steps + 1;
  }
  JINJA_RETURN_IF_ERROR(budget.Step(num_items));
  std::vector<Value> items;
  if (!sequence.items.empty()) {
    items.reserve(num_items);
    for (; count > 0; --count) {
      items.insert(items.end(), sequence.items.begin(), sequence.items.end());
    }
  }
  return MakeSequence(sequence.kind, std::move(items));
}

bool IsListOrTuple(const Value& value) {
  return value.is_sequence() && (value.sequence().kind == SequenceKind::kList ||
                                 value.sequence().kind == SequenceKind::kTuple);
}

absl::StatusOr<Value> Concatenate(Budget& budget, const Value& left, const Value& right) {
  if (left.is_string() && right.is_string()) {
    bool safe = left.safe() || right.safe();
    auto part = [&](const Value& side) {
      return safe && !side.safe() ? EscapeHtml(side.text()) : side.text();
    };
    JINJA_RETURN_IF_ERROR(budget.Text(left.text().size() + right.text().size()));
    return Value::String(part(left) + part(right), safe);
  }
  if (IsListOrTuple(left) && IsListOrTuple(right) &&
      left.sequence().kind == right.sequence().kind) {
    std::vector<Value> items = left.sequence().items;
    const std::vector<Value>& more = right.sequence().items;
    JINJA_RETURN_IF_ERROR(budget.Step(items.size() + more.size()));
    items.insert(items.end(), more.begin(), more.end());
    return MakeSequence(left.sequence().kind, std::move(items));
  }
  return Mismatch("+", left, right);
}

}  // namespace

absl::StatusOr<Value> Apply(Budget& budget, BinaryOperator op, const Value& left,
                            const Value& right) {
  if (left.is_integral() && right.is_integral()) {
    return IntegerArithmetic(op, left.integer(), right.integer());
  }
  if (left.is_number() && right.is_number()) {
    if (left.is(Kind::kBigInteger) || right.is(Kind::kBigInteger)) return Overflow();
    return FloatArithmetic(op, left.number(), right.number());
  }
  if (op == BinaryOperator::kAdd) return Concatenate(budget, left, right);
  if (op == BinaryOperator::kMultiply) {
    for (auto [text, count] : {std::pair(&left, &right), std::pair(&right, &left)}) {
      if (count->is_integral() && (text->is_string() || IsListOrTuple(*text))) {
        return Repeat(budget, *text, count->integer());
      }
    }
  }
  if (op == BinaryOperator::kModulo && left.is_string()) {
    JINJA_ASSIGN_OR_RETURN(std::string text, FormatPercent(budget, left.text(), right));
    return Value::String(std::move(text), left.safe());
  }
  return Mismatch(kSymbols[static_cast<int>(op)], left, right);
}

absl::StatusOr<Value> Apply(UnaryOperator op, const Value& operand) {
  if (op == UnaryOperator::kNot) return Value::Bool(!Truth(operand));
  if (operand.is(Kind::kFloat)) {
    return Value::Float(op == UnaryOperator::kMinus ? -operand.number() : operand.number());
  }
  if (operand.is_integral()) {
    std::int64_t value = operand.integer();
    if (op == UnaryOperator::kMinus && __builtin_sub_overflow(0, value, &value)) return Overflow();
    return Value::Integer(value);
  }
  if (operand.is_undefined() && !operand.why().empty()) return Failure(operand.why());
  return Failure("bad operand type for unary ", op == UnaryOperator::kMinus ? "-" : "+", ": '",
                 TypeName(operand), "'");
}

absl::StatusOr<bool> Holds(Budget& budget, Comparison comparison, const Value& left,
                           const Value& right) {
  JINJA_RETURN_IF_ERROR(budget.Step(std::min(left.extent().atoms, right.extent().atoms)));
  switch (comparison) {
    case Comparison::kEqual:
      return Equal(left, right);
    case Comparison::kNotEqual:
      return !Equal(left, right);
    case Comparison::kLess:
      return Less(left, right);
    case Comparison::kGreater:
      return Less(right, left);
    case Comparison::kLessOrEqual:
    case Comparison::kGreaterOrEqual: {
      bool is_less = comparison == Comparison::kLessOrEqual;
      const Value& small = is_less ? left : right;
      const Value& large = is_less ? right : left;
      JINJA_ASSIGN_OR_RETURN(bool less, Less(small, large));
      return less || Equal(small, large);
    }
    case Comparison::kIn:
      return Contains(budget, right, left);
    case Comparison::kNotIn: {
      JINJA_ASSIGN_OR_RETURN(bool contains, Contains(budget, right, left));
      return !contains;
    }
  }
  return Failure("an unknown comparison");
}

absl::StatusOr<bool> Contains(Budget& budget, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.is_string()) {
        return Failure("'in <string>' needs a string on its left, not '", TypeName(item), "'");
      }
      JINJA_RETURN_IF_ERROR(budget.Step(container.extent().atoms));
      return FindText(container.text(), item.text(), 0) != std::string::npos;
    case Kind::kDict:
      if (item.is_dict() || (item.is_sequence() && item.sequence().kind == SequenceKind::kList)) {
        return Failure("unhashable type: '", TypeName(item), "'");
      }
      return container.dict().Find(item) != nullptr;
    case Kind::kUndefined:
      return false;
    case Kind::kSequence: {
      JINJA_RETURN_IF_ERROR(budget.Step(container.extent().atoms));
      Sequence& sequence = container.sequence();
      bool is_iterator = sequence.kind == SequenceKind::kIterator;
      for (std::size_t i = sequence.consumed; i < sequence.items.size(); ++i) {
        if (is_iterator) sequence.consumed = i + 1;
        if (Equal(sequence.items[i], item)) return true;
      }
      JINJA_RETURN_IF_ERROR(sequence.failure);
      return false;
    }
    default:
      return Failure("'", TypeName(container), "' is no container for `in`");
  }
}

}  // namespace thresher::jinja
