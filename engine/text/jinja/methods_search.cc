// Methods of str that search a text or ask what it is made of.
#include <algorithm>

#include "engine/text/jinja/error.h"
#include "engine/text/jinja/methods.h"
#include "engine/text/jinja/python_text.h"
#include "engine/text/jinja/status_macros.h"
#include "engine/text/jinja/unicode_tables.h"

namespace thresher::jinja {
namespace {

using Result = absl::StatusOr<Value>;

// The part of a text between two code points, and where it starts.
struct Window {
  std::string_view text;
  std::int64_t start = 0;  // in code points
  bool valid = true;       // false where start is past the end: nothing is found there, not even ""
};

// From the start and end arguments at `index`, which count like a slice's.
absl::StatusOr<Window> Narrow(const std::string& text, const Bound& bound, int index) {
  const std::int64_t length = Length(text);
  std::int64_t ends[2] = {0, length};
  for (int i = 0; i < 2; ++i) {
    if (!bound.Has(index + i) || bound[index + i].is_none()) continue;
    JINJA_ASSIGN_OR_RETURN(ends[i], bound.Integer(index + i, 0));
    if (ends[i] < 0) ends[i] = std::max<std::int64_t>(0, ends[i] + length);
  }
  ends[1] = std::min(ends[1], length);
  if (ends[0] > ends[1]) return Window{"", ends[0], false};
  std::string_view rest = std::string_view(text).substr(Offset(text, ends[0]));
  return Window{rest.substr(0, Offset(rest, ends[1] - ends[0])), ends[0], true};
}

// The code point where `part` is found; -1 if nowhere.
absl::StatusOr<std::int64_t> Search(const Value& self, const Arguments& arguments,
                                    bool from_right) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("find", arguments, {"sub", "start", "end"}, 1));
  JINJA_ASSIGN_OR_RETURN(std::string part, bound.Text(0, ""));
  JINJA_ASSIGN_OR_RETURN(Window window, Narrow(self.text(), bound, 1));
  if (!window.valid) return -1;
  std::size_t at = FindText(window.text, part, 0);
  if (from_right && part.empty()) {
    at = window.text.size();
  } else if (from_right) {
    std::string text(window.text.rbegin(), window.text.rend());
    std::reverse(part.begin(), part.end());
    at = FindText(text, part, 0);
    if (at != std::string_view::npos) at = text.size() - at - part.size();
  }
  if (at == std::string_view::npos) return -1;
  return window.start + Length(window.text.substr(0, at));
}

template <bool kFromRight>
Result Find(Interpreter&, const Value& self, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(std::int64_t at, Search(self, arguments, kFromRight));
  return Value::Integer(at);
}

template <bool kFromRight>
Result Index(Interpreter&, const Value& self, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(std::int64_t at, Search(self, arguments, kFromRight));
  if (at < 0) return Failure("substring not found");
  return Value::Integer(at);
}

Result Count(Interpreter&, const Value& self, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound, Bound::Bind("count", arguments, {"sub", "start", "end"}, 1));
  JINJA_ASSIGN_OR_RETURN(std::string part, bound.Text(0, ""));
  JINJA_ASSIGN_OR_RETURN(Window window, Narrow(self.text(), bound, 1));
  if (!window.valid) return Value::Integer(0);
  if (part.empty()) return Value::Integer(Length(window.text) + 1);
  std::int64_t count = 0;
  for (std::size_t at = FindText(window.text, part, 0); at != std::string_view::npos;
       at = FindText(window.text, part, at + part.size())) {
    ++count;
  }
  return Value::Integer(count);
}

bool Starts(std::string_view text, std::string_view part) {
  return text.substr(0, part.size()) == part;
}
bool Ends(std::string_view text, std::string_view part) {
  return text.size() >= part.size() && text.substr(text.size() - part.size()) == part;
}

// The argument is a string or a tuple of strings, any of which will do.
template <bool (*kMatches)(std::string_view, std::string_view)>
Result Affix(Interpreter&, const Value& self, const Arguments& arguments) {
  JINJA_ASSIGN_OR_RETURN(Bound bound,
                         Bound::Bind("startswith", arguments, {"affix", "start", "end"}, 1));
  JINJA_ASSIGN_OR_RETURN(Window window, Narrow(self.text(), bound, 1));
  std::vector<Value> affixes = {bound[0]};
  if (bound[0].is_sequence() && bound[0].sequence().kind == SequenceKind::kTuple) {
    affixes = bound[0].sequence().items;
  }
  for (const Value& affix : affixes) {
    if (!affix.is_string()) {
      return Failure("startswith and endswith need a string or a tuple of strings, not '",
                     TypeName(affix), "'");
    }
    if (window.valid && kMatches(window.text, affix.text())) return Value::Bool(true);
  }
  return Value::Bool(false);
}

// True for a text that is not empty and all of whose characters pass.
template <bool (*kPasses)(char32_t)>
Result All(Interpreter&, const Value& self, const Arguments& arguments) {
  JINJA_RETURN_IF_ERROR(Bound::Bind("method", arguments, {}, 0).status());
  const std::string& text = self.text();
  for (std::size_t position = 0; position < text.size();) {
    if (!kPasses(NextCodePoint(text, position))) return Value::Bool(false);
  }
  return Value::Bool(!text.empty());
}

bool IsAlpha(char32_t code) { return (ClassOf(code) & kAlpha) != 0; }
bool IsDecimal(char32_t code) { return (ClassOf(code) & kDecimal) != 0; }
bool IsDigit(char32_t code) { return (ClassOf(code) & kDigit) != 0; }
bool IsAlnum(char32_t code) { return (ClassOf(code) & (kAlpha | kNumeric)) != 0; }

Result IsAscii(Interpreter&, const Value& self, const Arguments& arguments) {
  JINJA_RETURN_IF_ERROR(Bound::Bind("isascii", arguments, {}, 0).status());
  const std::string& text = self.text();
  return Value::Bool(std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; }));
}

// At least one letter with case, and none of another case.
template <ClassFlag kWanted>
Result Cased(Interpreter&, const Value& self, const Arguments& arguments) {
  JINJA_RETURN_IF_ERROR(Bound::Bind("method", arguments, {}, 0).status());
  bool any = false;
  const std::string& text = self.text();
  for (std::size_t position = 0; position < text.size();) {
    std::uint16_t flags = ClassOf(NextCodePoint(text, position));
    if ((flags & (kLower | kUpper | kTitle) & ~kWanted) != 0) return Value::Bool(false);
    any = any || (flags & kWanted) != 0;
  }
  return Value::Bool(any);
}

// Capitals only at the start of a word, and small letters only inside.
Result IsTitle(Interpreter&, const Value& self, const Arguments& arguments) {
  JINJA_RETURN_IF_ERROR(Bound::Bind("istitle", arguments, {}, 0).status());
  bool any = false;
  bool inside = false;
  const std::string& text = self.text();
  for (std::size_t position = 0; position < text.size();) {
    std::uint16_t flags = ClassOf(NextCodePoint(text, position));
    bool capital = (flags & (kUpper | kTitle)) != 0;
    bool small = (flags & kLower) != 0;
    if ((capital && inside) || (small && !inside)) return Value::Bool(false);
    inside = capital || small;
    any = any || inside;
  }
  return Value::Bool(any);
}

constexpr StringMethodRow kRows[] = {
    {"count", &Count},           {"endswith", &Affix<Ends>},
    {"find", &Find<false>},      {"index", &Index<false>},
    {"isalnum", &All<IsAlnum>},  {"isalpha", &All<IsAlpha>},
    {"isascii", &IsAscii},       {"isdecimal", &All<IsDecimal>},
    {"isdigit", &All<IsDigit>},  {"islower", &Cased<kLower>},
    {"isspace", &All<IsSpace>},  {"istitle", &IsTitle},
    {"isupper", &Cased<kUpper>}, {"rfind", &Find<true>},
    {"rindex", &Index<true>},    {"startswith", &Affix<Starts>},
};

}  // namespace

absl::Span<const StringMethodRow> SearchMethods() { return kRows; }

}  // namespace thresher::jinja
