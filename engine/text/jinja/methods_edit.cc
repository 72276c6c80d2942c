// Methods of str that give another text, or several.
#include <algorithm>

#include "engine/text/jinja/error.h"
#include "engine/text/jinja/methods.h"
#include "engine/text/jinja/python_text.h"
#include "engine/text/jinja/status_macros.h"
#include "engine/text/jinja/text_search.h"

namespace thresher::jinja {
namespace {

using Result = absl::StatusOr<Value>;

template <std::string (*kMap)(std::string_view)>
Result Mapped(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  JINJA_RETURN_IF_ERROR(Bound::Bind("method", arguments, {}, 0).status());
  return interpreter.NewText(kMap(self.text()), self.safe());
}

template <std::string_view (*kStrip)(std::string_view, std::optional<std::string_view>)>
Result Stripped(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("strip", arguments, {"chars"}, 0));
  std::optional<std::string_view> characters;
  if (bound.Has(0) && !bound[0].is_none()) {
    if (!bound[0].is_string()) return Failure("strip arg must be None or str");
    characters = bound[0].text();
  }
  return interpreter.NewText(std::string(kStrip(self.text(), characters)), self.safe());
}

// Parts of a safe text are safe.
void CopySafe(const Value& self, std::vector<Value>& pieces) {
  if (!self.safe()) return;
  for (Value& piece : pieces) piece = Value::String(piece.text(), true);
}

template <bool kFromRight>
Result Split(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("split", arguments, {"sep", "maxsplit"}, 0));
  JINJA_ASSIGN_OR_RETURN(std::int64_t max_splits, bound.Integer(1, -1));
  const std::string* separator = nullptr;
  if (bound.Has(0) && !bound[0].is_none()) {
    if (!bound[0].is_string()) return Failure("must be str or None, not ", TypeName(bound[0]));
    separator = &bound[0].text();
  }
  JINJA_ASSIGN_OR_RETURN(std::vector<Value> pieces, SplitText(interpreter.budget(), self.text(),
                                                              separator, max_splits, kFromRight));
  CopySafe(self, pieces);
  return MakeSequence(SequenceKind::kList, std::move(pieces));
}

Result Lines(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("splitlines", arguments, {"keepends"}, 0));
  std::vector<Value> lines;
  for (std::string_view line : SplitLines(self.text(), bound.Flag(0, false))) {
    lines.push_back(Value::String(std::string(line)));
  }
  JINJA_RETURN_IF_ERROR(interpreter.budget().Step(static_cast<std::int64_t>(lines.size())));
  CopySafe(self, lines);
  return MakeSequence(SequenceKind::kList, std::move(lines));
}

template <bool kFromRight>
Result Partition(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("partition", arguments, {"sep"}, 1));
  JINJA_ASSIGN_OR_RETURN(std::string separator, bound.Text(0, ""));
  JINJA_ASSIGN_OR_RETURN(std::vector<Value> pieces,
                         SplitText(interpreter.budget(), self.text(), &separator, 1, kFromRight));
  if (pieces.size() == 2) {
    pieces.insert(pieces.begin() + 1, Value::String(std::move(separator)));
  } else {
    pieces.insert(kFromRight ? pieces.begin() : pieces.end(), 2, Value::String(""));
  }
  CopySafe(self, pieces);
  return MakeSequence(SequenceKind::kTuple, std::move(pieces));
}

Result Replace(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound,
                         Bound::Bind("replace", arguments, {"old", "new", "count"}, 2));
  JINJA_ASSIGN_OR_RETURN(std::string old, bound.Text(0, ""));
  JINJA_ASSIGN_OR_RETURN(std::string with, bound.Text(1, ""));
  JINJA_ASSIGN_OR_RETURN(std::int64_t count, bound.Integer(2, -1));
  JINJA_ASSIGN_OR_RETURN(std::string text,
                         ReplaceText(interpreter.budget(), self.text(), old, with, count));
  return Value::String(std::move(text), self.safe());
}

Result Join(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("join", arguments, {"iterable"}, 1));
  JINJA_ASSIGN_OR_RETURN(std::vector<Value> items, interpreter.Items(bound[0]));
  std::int64_t bytes = 0;
  for (const Value& item : items) {
    if (!item.is_string()) {
      return Failure("join needs strings, found '", TypeName(item), "'");
    }
    bytes += static_cast<std::int64_t>(item.text().size() + self.text().size());
  }
  JINJA_RETURN_IF_ERROR(interpreter.budget().Text(bytes));
  std::string out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += self.text();
    out += items[i].text();
  }
  return Value::String(std::move(out));
}

template <bool kPrefix>
Result Remove(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("removeprefix", arguments, {"part"}, 1));
  JINJA_ASSIGN_OR_RETURN(std::string part, bound.Text(0, ""));
  std::string_view text = self.text();
  if (kPrefix && text.substr(0, part.size()) == part) {
    text.remove_prefix(part.size());
  } else if (!kPrefix && text.size() >= part.size() &&
             text.substr(text.size() - part.size()) == part) {
    text.remove_suffix(part.size());
  }
  return interpreter.NewText(std::string(text), self.safe());
}

enum class Side { kLeft, kRight, kCenter };

template <Side kSide>
Result Justify(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("justify", arguments, {"width", "fillchar"}, 1));
  JINJA_ASSIGN_OR_RETURN(std::int64_t width, bound.Integer(0, 0));
  JINJA_ASSIGN_OR_RETURN(std::string fill, bound.Text(1, " "));
  if (Length(fill) != 1) return Failure("The fill character must be exactly one character long");
  const std::int64_t missing = width - Length(self.text());
  if (missing <= 0) return self;
  if (missing > interpreter.budget().limits().max_text_bytes) {
    return interpreter.budget().Text(missing);
  }
  JINJA_RETURN_IF_ERROR(
      interpreter.budget().Text(static_cast<std::int64_t>(self.text().size()) +
                                missing * static_cast<std::int64_t>(fill.size())));
  std::int64_t left = kSide == Side::kRight ? missing : 0;
  // CPython's rule for an odd rest.
  if (kSide == Side::kCenter) left = missing / 2 + (missing & width & 1);
  std::string out;
  for (std::int64_t i = 0; i < left; ++i) out += fill;
  out += self.text();
  for (std::int64_t i = left; i < missing; ++i) out += fill;
  return Value::String(std::move(out), self.safe());
}

Result ZeroFill(Interpreter& interpreter, const Value& self, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("zfill", arguments, {"width"}, 1));
  JINJA_ASSIGN_OR_RETURN(std::int64_t width, bound.Integer(0, 0));
  const std::string& text = self.text();
  const std::int64_t missing = width - Length(text);
  if (missing <= 0) return self;
  JINJA_RETURN_IF_ERROR(interpreter.budget().Text(missing));
  bool has_sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  std::string out = text.substr(0, has_sign) + std::string(missing, '0') + text.substr(has_sign);
  return interpreter.NewText(std::move(out), self.safe());
}

constexpr StringMethodRow kRows[] = {
    {"capitalize", &Mapped<Capitalize>},
    {"center", &Justify<Side::kCenter>},
    {"join", &Join},
    {"ljust", &Justify<Side::kLeft>},
    {"lower", &Mapped<Lower>},
    {"lstrip", &Stripped<StripLeft>},
    {"partition", &Partition<false>},
    {"removeprefix", &Remove<true>},
    {"removesuffix", &Remove<false>},
    {"replace", &Replace},
    {"rjust", &Justify<Side::kRight>},
    {"rpartition", &Partition<true>},
    {"rsplit", &Split<true>},
    {"rstrip", &Stripped<StripRight>},
    {"split", &Split<false>},
    {"splitlines", &Lines},
    {"strip", &Stripped<Strip>},
    {"swapcase", &Mapped<SwapCase>},
    {"title", &Mapped<Title>},
    {"upper", &Mapped<Upper>},
    {"zfill", &ZeroFill},
};

}  // namespace

absl::Span<const StringMethodRow> EditMethods() { return kRows; }

}  // namespace thresher::jinja
