// Python's `format % values`.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/text/jinja/error.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/print.h"
#include "engine/text/jinja/python_text.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {
namespace {

// Wider fields and more digits than any prompt needs.
constexpr int kMaxWidth = 1000;

struct Conversion {
  std::string key;  // of %(key)s
  std::string flags;
  int width = 0;
  int precision = -1;
  char type = 0;
};

absl::StatusOr<int> ReadNumber(std::string_view format, std::size_t& at) {
  int number = 0;
  while (at < format.size() && format[at] >= '0' && format[at] <= '9') {
    number = number * 10 + (format[at++] - '0');
    if (number > kMaxWidth) return Failure("a width or precision over ", kMaxWidth, " in a format");
  }
  return number;
}

absl::StatusOr<Conversion> ReadConversion(std::string_view format, std::size_t& at) {
  Conversion conversion;
  if (at < format.size() && format[at] == '(') {
    std::size_t end = format.find(')', at);
    if (end == std::string_view::npos) return Failure("incomplete format key");
    conversion.key = std::string(format.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  while (at < format.size() &&
         std::string_view("#0- +").find(format[at]) != std::string_view::npos) {
    conversion.flags += format[at++];
  }
  JINJA_ASSIGN_OR_RETURN(conversion.width, ReadNumber(format, at));
  if (at < format.size() && format[at] == '.') {
    ++at;
    JINJA_ASSIGN_OR_RETURN(conversion.precision, ReadNumber(format, at));
  }
  if (at >= format.size()) return Failure("incomplete format");
  conversion.type = format[at++];
  return conversion;
}

std::string Pad(std::string text, const Conversion& conversion) {
  std::int64_t missing = conversion.width - Length(text);
  if (missing <= 0) return text;
  bool left = conversion.flags.find('-') != std::string::npos;
  return left ? text + std::string(missing, ' ') : std::string(missing, ' ') + text;
}

// The C library formats numbers as Python does.
template <typename Number>
std::string PrintNumber(const Conversion& conversion, std::string_view length, char type,
                        Number number) {
  std::string format = "%" + conversion.flags;
  if (conversion.width > 0) absl::StrAppend(&format, conversion.width);
  if (conversion.precision >= 0) absl::StrAppend(&format, ".", conversion.precision);
  format += length;
  format += type;
  std::string out(std::snprintf(nullptr, 0, format.c_str(), number), '\0');
  std::snprintf(out.data(), out.size() + 1, format.c_str(), number);
  return out;
}

absl::StatusOr<std::string> Convert(Budget& budget, const Conversion& conversion,
                                    const Value& value) {
  switch (conversion.type) {
    case 's':
    case 'r': {
      std::string text;
      JINJA_RETURN_IF_ERROR(conversion.type == 's' ? AppendStr(budget, value, text)
                                                   : AppendRepr(budget, value, text));
      if (conversion.precision >= 0) text.resize(Offset(text, conversion.precision));
      return Pad(std::move(text), conversion);
    }
    case 'd':
    case 'i':
    case 'u':
      if (value.is(Kind::kFloat)) {
        // Written so that NaN fails: the cast is defined only for what fits.
        if (!(std::fabs(value.number()) < 9.2e18)) {
          return Failure("an integer that does not fit 64 bits");
        }
        return PrintNumber(conversion, "ll", 'd', static_cast<long long>(value.number()));
      }
      if (!value.is_integral()) break;
      return PrintNumber(conversion, "ll", 'd', static_cast<long long>(value.integer()));
    case 'x':
    case 'X':
    case 'o':
      if (!value.is_integral() || value.integer() < 0) break;
      return PrintNumber(conversion, "ll", conversion.type,
                         static_cast<long long>(value.integer()));
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      if (!value.is_number()) break;
      return PrintNumber(conversion, "", conversion.type, value.number());
    default:
      return Failure("the format %", std::string(1, conversion.type), " is not supported");
  }
  return Failure("%", std::string(1, conversion.type), " cannot show a '", TypeName(value), "'");
}

}  // namespace

absl::StatusOr<std::string> FormatPercent(Budget& budget, const std::string& format,
                                          const Value& values) {
  std::vector<Value> arguments = {values};
  if (values.is_sequence() && values.sequence().kind == SequenceKind::kTuple) {
    arguments = values.sequence().items;
  }
  std::string out;
  std::size_t used = 0;
  bool by_key = false;
  for (std::size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      out += format[at++];
      continue;
    }
    ++at;
    JINJA_ASSIGN_OR_RETURN(Conversion conversion, ReadConversion(format, at));
    if (conversion.type == '%') {
      out += '%';
      continue;
    }
    Value value;
    if (!conversion.key.empty()) {
      by_key = true;
      const Value* found = values.is_dict() ? values.dict().Find(conversion.key) : nullptr;
      if (found == nullptr) return Failure("a format has no value for '", conversion.key, "'");
      value = *found;
    } else {
      if (used >= arguments.size()) return Failure("not enough arguments for format string");
      value = arguments[used++];
    }
    JINJA_ASSIGN_OR_RETURN(std::string text, Convert(budget, conversion, value));
    JINJA_RETURN_IF_ERROR(budget.Text(static_cast<std::int64_t>(out.size() + text.size())));
    out += text;
  }
  // Python takes all that has subscripts for a mapping here, Undefined too, but tuples and strings.
  bool is_list = values.is_sequence() && (values.sequence().kind == SequenceKind::kList ||
                                          values.sequence().kind == SequenceKind::kRange);
  bool counts_as_mapping = is_list || values.is_dict() || values.is_undefined();
  if (!by_key && used < arguments.size() && !counts_as_mapping) {
    return Failure("not all arguments converted during string formatting");
  }
  return out;
}

}  // namespace thresher::jinja
