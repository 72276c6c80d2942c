// Filters that make a number.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/text/jinja/builtins.h"
#include "engine/text/jinja/error.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/python_text.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {
namespace {

constexpr std::int64_t kMaxPrecision = 300;

// The text without spaces around it and without underscores between digits; empty if they are
// elsewhere.
std::string NumberText(std::string_view text) {
  std::string out;
  std::string_view stripped = Strip(text, std::nullopt);
  for (std::size_t i = 0; i < stripped.size(); ++i) {
    if (stripped[i] != '_') {
      out += stripped[i];
      continue;
    }
    bool between = i > 0 && i + 1 < stripped.size() && std::isalnum(stripped[i - 1]) != 0 &&
                   std::isalnum(stripped[i + 1]) != 0;
    if (!between) return "";
  }
  return out;
}

std::optional<double> ParseFloat(std::string_view text) {
  std::string number = NumberText(text);
  // The C library would take hexadecimal floats and "nan(…)".
  if (number.empty() || number.find_first_of("xX(") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  double value = std::strtod(number.c_str(), &end);
  if (end != number.c_str() + number.size()) return std::nullopt;
  return value;
}

// Python's int(text, base) where it fits 64 bits.
std::optional<std::int64_t> ParseInteger(std::string_view text, int base) {
  std::string number = NumberText(text);
  bool negative = !number.empty() && number[0] == '-';
  if (!number.empty() && (number[0] == '-' || number[0] == '+')) number.erase(0, 1);
  auto drop_prefix = [&](char letter) {
    if (number.size() > 2 && number[0] == '0' && (number[1] | 0x20) == letter) number.erase(0, 2);
  };
  if (base == 16) drop_prefix('x');
  if (base == 8) drop_prefix('o');
  if (base == 2) drop_prefix('b');
  if (number.empty() || std::isalnum(static_cast<unsigned char>(number[0])) == 0) {
    return std::nullopt;
  }
  char* end = nullptr;
  errno = 0;
  long long value = std::strtoll(number.c_str(), &end, base);
  if (errno != 0 || end != number.c_str() + number.size()) return std::nullopt;
  return negative ? -value : value;
}

absl::StatusOr<Value> Truncate(double value) {
  if (!(std::fabs(value) < 9.2e18)) return Failure("an integer that does not fit 64 bits");
  return Value::Integer(static_cast<std::int64_t>(value));
}

absl::StatusOr<Value> Int(Interpreter&, const Value& input, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("int", arguments, {"default", "base"}, 0));
  JINJA_ASSIGN_OR_RETURN(std::int64_t base, bound.Integer(1, 10));
  if (base < 2 || base > 36) return Failure("int() needs a base from 2 to 36, not ", base);
  Value fallback = bound.Has(0) ? bound[0] : Value::Integer(0);
  if (input.is_undefined()) return Failure(input.why());
  if (input.is_integral()) return Value::Integer(input.integer());
  if (input.is(Kind::kBigInteger)) return input;
  if (input.is(Kind::kFloat)) {
    if (std::isnan(input.number())) return fallback;
    return Truncate(input.number());
  }
  if (!input.is_string()) return fallback;
  if (auto value = ParseInteger(input.text(), static_cast<int>(base))) {
    return Value::Integer(*value);
  }
  if (auto value = ParseFloat(input.text())) {
    if (std::isnan(*value)) return fallback;
    return Truncate(*value);
  }
  return fallback;
}

absl::StatusOr<Value> Float(Interpreter&, const Value& input, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("float", arguments, {"default"}, 0));
  if (input.is_undefined()) return Failure(input.why());
  if (input.is_number()) return Value::Float(input.number());
  if (input.is_string()) {
    if (auto value = ParseFloat(input.text())) return Value::Float(*value);
  }
  return bound.Has(0) ? bound[0] : Value::Float(0);
}

absl::StatusOr<Value> Abs(Interpreter&, const Value& input, const Arguments& arguments) {
  JINJA_RETURN_IF_ERROR(Bound::Bind("abs", arguments, {}, 0).status());
  if (input.is(Kind::kFloat)) return Value::Float(std::fabs(input.number()));
  if (!input.is_integral()) return Failure("abs needs a number, not '", TypeName(input), "'");
  if (input.integer() < 0) return Apply(UnaryOperator::kMinus, input);
  return Value::Integer(input.integer());
}

// Rounds half to even on the exact decimal expansion, which the C library's printf does.
double RoundTo(double value, int precision) {
  std::string text(400 + precision, '\0');
  std::snprintf(text.data(), text.size(), "%.*f", precision, value);
  return std::strtod(text.c_str(), nullptr);
}

absl::StatusOr<Value> Round(Interpreter&, const Value& input, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("round", arguments, {"precision", "method"}, 0));
  JINJA_ASSIGN_OR_RETURN(std::int64_t precision, bound.Integer(0, 0));
  JINJA_ASSIGN_OR_RETURN(std::string method, bound.Text(1, "common"));
  if (method != "common" && method != "ceil" && method != "floor") {
    return Failure("method must be common, ceil or floor");
  }
  if (precision < 0 || precision > kMaxPrecision) {
    return Failure("round() needs a precision from 0 to ", kMaxPrecision, ", not ", precision);
  }
  if (!input.is_number()) return Failure("round needs a number, not '", TypeName(input), "'");
  if (method == "common") {
    if (!input.is(Kind::kFloat))
      return input.is(Kind::kBool) ? Value::Integer(input.integer()) : input;
    if (!std::isfinite(input.number())) return input;
    return Value::Float(RoundTo(input.number(), static_cast<int>(precision)));
  }
  double scale = std::pow(10.0, static_cast<double>(precision));
  double scaled = input.number() * scale;
  if (!std::isfinite(scaled)) return Failure("cannot round a value that is not finite");
  return Value::Float((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

constexpr FilterRow kRows[] = {
    {"abs", &Abs},
    {"float", &Float},
    {"int", &Int},
    {"round", &Round},
};

}  // namespace

absl::Span<const FilterRow> NumberFilters() { return kRows; }

}  // namespace thresher::jinja
