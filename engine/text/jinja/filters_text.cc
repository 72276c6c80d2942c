// Filters that make a text of a text.
#include "absl/strings/str_cat.h"
#include "engine/text/jinja/builtins.h"
#include "engine/text/jinja/error.h"
#include "engine/text/jinja/escape.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/python_text.h"
#include "engine/text/jinja/status_macros.h"
#include "engine/text/jinja/text_search.h"

namespace thresher::jinja {
namespace {

bool IsSafe(const Value& value) { return value.is_string() && value.safe(); }

// A filter without parameters that maps str(input).
template <std::string (*kMap)(std::string_view)>
absl::StatusOr<Value> Mapped(Interpreter& interpreter, const Value& input,
                             const Arguments& arguments) {
  JINJA_RETURN_IF_ERROR(Bound::Bind("filter", arguments, {}, 0).status());
  JINJA_ASSIGN_OR_RETURN(std::string text, interpreter.Str(input));
  return interpreter.NewText(kMap(text), IsSafe(input));
}

// Jinja's own title: a capital after space, "-", "(", "{", "[" and "<".
std::string TitleFilter(std::string_view text) {
  std::string out;
  std::size_t start = 0;
  auto flush = [&](std::size_t end) {
    if (end == start) return;
    std::string_view word = text.substr(start, end - start);
    std::size_t first = Offset(word, 1);
    out += Upper(word.substr(0, first));
    out += Lower(word.substr(first));
  };
  for (std::size_t position = 0; position < text.size();) {
    std::size_t at = position;
    char32_t code = NextCodePoint(text, position);
    bool separates =
        IsSpace(code) || code == '-' || code == '(' || code == '{' || code == '[' || code == '<';
    if (!separates) continue;
    flush(at);
    out += text.substr(at, position - at);
    start = position;
  }
  flush(text.size());
  return out;
}

absl::StatusOr<Value> Trim(Interpreter& interpreter, const Value& input,
                           const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("trim", arguments, {"chars"}, 0));
  JINJA_ASSIGN_OR_RETURN(std::string text, interpreter.Str(input));
  if (!bound.Has(0) || bound[0].is_none()) {
    return interpreter.NewText(std::string(Strip(text, std::nullopt)), IsSafe(input));
  }
  JINJA_ASSIGN_OR_RETURN(std::string characters, bound.Text(0, ""));
  return interpreter.NewText(std::string(Strip(text, characters)), IsSafe(input));
}

absl::StatusOr<Value> Replace(Interpreter& interpreter, const Value& input,
                              const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound,
                         Bound::Bind("replace", arguments, {"old", "new", "count"}, 2));
  JINJA_ASSIGN_OR_RETURN(std::string text, interpreter.Str(input));
  JINJA_ASSIGN_OR_RETURN(std::string old, interpreter.Str(bound[0]));
  JINJA_ASSIGN_OR_RETURN(std::string with, interpreter.Str(bound[1]));
  std::int64_t count = -1;
  if (bound.Has(2) && !bound[2].is_none()) {
    JINJA_ASSIGN_OR_RETURN(count, bound.Integer(2, -1));
  }
  JINJA_ASSIGN_OR_RETURN(std::string replaced,
                         ReplaceText(interpreter.budget(), text, old, with, count));
  return Value::String(std::move(replaced), IsSafe(input));
}

absl::StatusOr<Value> Indent(Interpreter& interpreter, const Value& input,
                             const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound,
                         Bound::Bind("indent", arguments, {"width", "first", "blank"}, 0));
  if (!input.is_string()) return Failure("indent needs a string, not '", TypeName(input), "'");
  std::string indention;
  if (bound.Has(0) && bound[0].is_string()) {
    indention = bound[0].text();
  } else {
    JINJA_ASSIGN_OR_RETURN(std::int64_t width, bound.Integer(0, 4));
    JINJA_RETURN_IF_ERROR(interpreter.budget().Text(width));
    indention = std::string(width > 0 ? width : 0, ' ');
  }
  const std::string text = input.text() + "\n";
  const auto lines = SplitLines(text, false);
  JINJA_RETURN_IF_ERROR(interpreter.budget().Step(static_cast<std::int64_t>(lines.size())));
  JINJA_RETURN_IF_ERROR(interpreter.budget().Text(
      static_cast<std::int64_t>(text.size() + lines.size() * indention.size())));
  const bool blank = bound.Flag(2, false);
  std::string out = bound.Flag(1, false) ? indention : "";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out += '\n';
      if (blank || !lines[i].empty()) out += indention;
    }
    out += lines[i];
  }
  return Value::String(std::move(out), input.safe());
}

absl::StatusOr<Value> String(Interpreter& interpreter, const Value& input,
                             const Arguments& arguments) {
  JINJA_RETURN_IF_ERROR(Bound::Bind("string", arguments, {}, 0).status());
  if (input.is_string()) return input;
  JINJA_ASSIGN_OR_RETURN(std::string text, interpreter.Str(input));
  return Value::String(std::move(text));
}

absl::StatusOr<Value> Safe(Interpreter& interpreter, const Value& input,
                           const Arguments& arguments) {
  JINJA_RETURN_IF_ERROR(Bound::Bind("safe", arguments, {}, 0).status());
  JINJA_ASSIGN_OR_RETURN(std::string text, interpreter.Str(input));
  return Value::String(std::move(text), true);
}

absl::StatusOr<Value> Escape(Interpreter& interpreter, const Value& input,
                             const Arguments& arguments) {
  JINJA_RETURN_IF_ERROR(Bound::Bind("escape", arguments, {}, 0).status());
  if (IsSafe(input)) return input;
  JINJA_ASSIGN_OR_RETURN(std::string text, interpreter.Str(input));
  return interpreter.NewText(EscapeHtml(text), true);
}

absl::StatusOr<Value> Format(Interpreter& interpreter, const Value& input,
                             const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(std::string format, interpreter.Str(input));
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    return Failure("format takes positional or named arguments, not both");
  }
  Value values;
  if (!arguments.named.empty()) {
    auto dict = std::make_shared<Dict>();
    for (const auto& [name, value] : arguments.named) {
      JINJA_RETURN_IF_ERROR(dict->Set(Value::String(name), value));
    }
    values = Value::Of(std::shared_ptr<const Dict>(std::move(dict)));
  } else {
    JINJA_ASSIGN_OR_RETURN(values, MakeSequence(SequenceKind::kTuple, arguments.positional));
  }
  JINJA_ASSIGN_OR_RETURN(std::string text, FormatPercent(interpreter.budget(), format, values));
  return Value::String(std::move(text), IsSafe(input));
}

constexpr FilterRow kRows[] = {
    {"capitalize", &Mapped<Capitalize>},
    {"e", &Escape},
    {"escape", &Escape},
    {"format", &Format},
    {"indent", &Indent},
    {"lower", &Mapped<Lower>},
    {"replace", &Replace},
    {"safe", &Safe},
    {"string", &String},
    {"title", &Mapped<TitleFilter>},
    {"trim", &Trim},
    {"upper", &Mapped<Upper>},
};

}  // namespace

absl::Span<const FilterRow> TextFilters() { return kRows; }

}  // namespace thresher::jinja
