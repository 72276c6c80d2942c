// tojson as Hugging Face overrides it: json.dumps, which escapes no HTML.
#include "engine/text/jinja/builtins.h"
#include "engine/text/jinja/error.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/print.h"
#include "engine/text/jinja/status_macros.h"

namespace thresher::jinja {
namespace {

// One level of it: that many spaces, or the string itself.
absl::StatusOr<std::string> IndentText(const Value& indent) {
  if (indent.is_string()) return indent.text();
  if (!indent.is_integral()) {
    return Failure("tojson needs an integer or a string for 'indent', not '", TypeName(indent),
                   "'");
  }
  constexpr std::int64_t kMaxIndent = 64;
  if (indent.integer() > kMaxIndent) return Failure("tojson takes an indent up to ", kMaxIndent);
  return std::string(std::max<std::int64_t>(0, indent.integer()), ' ');
}

absl::StatusOr<Value> ToJson(Interpreter& interpreter, const Value& input,
                             const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(
      Bound bound,
      Bound::Bind("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0));
  JsonStyle style;
  style.ensure_ascii = bound.Flag(0, false);
  style.sort_keys = bound.Flag(3, false);
  if (bound.Has(1) && !bound[1].is_none()) {
    JINJA_ASSIGN_OR_RETURN(style.indent, IndentText(bound[1]));
    style.item_separator.assign(1, ',');
  }
  if (bound.Has(2) && !bound[2].is_none()) {
    JINJA_ASSIGN_OR_RETURN(std::vector<Value> separators, interpreter.Items(bound[2]));
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string()) {
      return Failure("tojson needs two strings for 'separators'");
    }
    style.item_separator = separators[0].text();
    style.key_separator = separators[1].text();
  }
  std::string text;
  JINJA_RETURN_IF_ERROR(AppendJson(interpreter.budget(), input, style, text));
  return Value::String(std::move(text));
}

constexpr FilterRow kRows[] = {{"tojson", &ToJson}};

}  // namespace

absl::Span<const FilterRow> JsonFilters() { return kRows; }

}  // namespace thresher::jinja
