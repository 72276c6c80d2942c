// The functions that a template may call by name.
#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "engine/text/jinja/builtins.h"
#include "engine/text/jinja/error.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {
namespace {

// The sandbox of Jinja has the same.
constexpr std::uint64_t kMaxRange = 100'000;

absl::StatusOr<Value> Range(Interpreter& interpreter, const Arguments& arguments) {
  if (!arguments.named.empty()) return Failure("range() takes no keyword arguments");
  const std::size_t count = arguments.positional.size();
  if (count < 1 || count > 3) return Failure("range() takes 1 to 3 arguments, not ", count);
  std::int64_t parts[3] = {0, 0, 1};
  for (std::size_t i = 0; i < count; ++i) {
    const Value& value = arguments.positional[i];
    if (!value.is_integral()) {
      return Failure("'", TypeName(value), "' object cannot be interpreted as an integer");
    }
    parts[i] = value.integer();
  }
  if (count == 1) std::swap(parts[0], parts[1]);
  const auto [start, stop, step] = parts;
  if (step == 0) return Failure("range() arg 3 must not be zero");
  // Differences of int64 fit uint64.
  auto difference = [](std::int64_t high, std::int64_t low) {
    return static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  };
  std::uint64_t length = 0;
  if (step > 0 && stop > start) length = (difference(stop, start) - 1) / step + 1;
  if (step < 0 && stop < start) length = (difference(start, stop) - 1) / difference(0, step) + 1;
  if (length > kMaxRange) {
    return Failure("Range too big. The sandbox blocks ranges larger than MAX_RANGE (", kMaxRange,
                   ").");
  }
  JINJA_RETURN_IF_ERROR(interpreter.budget().Step(static_cast<std::int64_t>(length)));
  std::vector<Value> items;
  for (std::uint64_t i = 0; i < length; ++i) {
    items.push_back(Value::Integer(start + static_cast<std::int64_t>(i) * step));
  }
  return MakeRange(RangeBounds{start, stop, step}, std::move(items));
}

// The entries of dict(…) and namespace(…): one mapping or pairs, then names.
absl::StatusOr<Dict> Entries(Interpreter& interpreter, std::string_view callee,
                             const Arguments& arguments) {
  Dict dict;
  if (arguments.positional.size() > 1) {
    return Failure(std::string(callee), "() takes at most one positional argument");
  }
  for (const Value& source : arguments.positional) {
    if (source.is_dict()) {
      JINJA_RETURN_IF_ERROR(interpreter.budget().Step(source.extent().atoms));
      dict = source.dict();
      continue;
    }
    JINJA_ASSIGN_OR_RETURN(std::vector<Value> pairs, interpreter.Items(source));
    for (const Value& pair : pairs) {
      JINJA_ASSIGN_OR_RETURN(std::vector<Value> parts, interpreter.Items(pair));
      if (parts.size() != 2) return Failure(std::string(callee), "() needs pairs");
      JINJA_RETURN_IF_ERROR(dict.Set(parts[0], parts[1]));
    }
  }
  for (const auto& [name, value] : arguments.named) {
    JINJA_RETURN_IF_ERROR(dict.Set(Value::String(name), value));
  }
  return dict;
}

absl::StatusOr<Value> MakeDict(Interpreter& interpreter, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Dict dict, Entries(interpreter, "dict", arguments));
  return Value::Of(std::make_shared<const Dict>(std::move(dict)));
}

absl::StatusOr<Value> MakeNamespace(Interpreter& interpreter, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Dict dict, Entries(interpreter, "namespace", arguments));
  return interpreter.NewNamespace(std::move(dict));
}

absl::StatusOr<Value> RaiseException(Interpreter& interpreter, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("raise_exception", arguments, {"message"}, 1));
  JINJA_ASSIGN_OR_RETURN(std::string message, interpreter.Str(bound[0]));
  return interpreter.Raise(message);
}

// The C library's strftime on a time without a zone, plus Python's %f.
absl::StatusOr<Value> StrftimeNow(Interpreter& interpreter, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("strftime_now", arguments, {"format"}, 1));
  JINJA_ASSIGN_OR_RETURN(std::string format, bound.Text(0, ""));
  constexpr std::size_t kMaxFormat = 256;
  if (format.size() > kMaxFormat) return Failure("a time format over ", kMaxFormat, " bytes");
  const Clock& clock = interpreter.clock();
  const absl::TimeZone::CivilInfo civil = clock.zone.At(clock.now);
  std::string plain;
  for (std::size_t i = 0; i < format.size(); ++i) {
    char code = format[i] == '%' && i + 1 < format.size() ? format[i + 1] : '\0';
    if (code == 'f') {
      std::string digits = absl::StrCat(absl::ToInt64Microseconds(civil.subsecond));
      plain += std::string(6 - std::min<std::size_t>(6, digits.size()), '0') + digits;
      ++i;
    } else if (code == 'z' || code == 'Z') {
      ++i;  // datetime.now() has no zone, and shows none.
    } else if (code == '%') {
      plain += "%%";
      ++i;
    } else {
      plain += format[i];
    }
  }
  if (plain.empty()) return Value::String("");
  std::tm parts = {};
  parts.tm_year = static_cast<int>(civil.cs.year() - 1900);
  parts.tm_mon = civil.cs.month() - 1;
  parts.tm_mday = civil.cs.day();
  parts.tm_hour = civil.cs.hour();
  parts.tm_min = civil.cs.minute();
  parts.tm_sec = civil.cs.second();
  const absl::CivilDay day(civil.cs);
  // Days since Sunday; absl counts from Monday.
  parts.tm_wday = (static_cast<int>(absl::GetWeekday(day)) + 1) % 7;
  parts.tm_yday = absl::GetYearDay(day) - 1;
  // A leading character tells an empty result from one that does not fit.
  plain.insert(plain.begin(), ' ');
  // Each code of two bytes shows a few dozen bytes at most; wide fields as in %999d are cut off
  // here.
  char buffer[16 * kMaxFormat];
  std::size_t size = std::strftime(buffer, sizeof(buffer), plain.c_str(), &parts);
  if (size == 0) return Failure("a time format with a result over ", sizeof(buffer), " bytes");
  return Value::String(std::string(buffer + 1, size - 1));
}

constexpr Function kRows[] = {
    {"dict", &MakeDict}, {"namespace", &MakeNamespace},  {"raise_exception", &RaiseException},
    {"range", &Range},   {"strftime_now", &StrftimeNow},
};

}  // namespace

absl::Span<const Function> Functions() { return kRows; }

}  // namespace thresher::jinja
