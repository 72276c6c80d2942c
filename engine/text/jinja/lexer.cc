#include "engine/text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/text/jinja/python_text.h"
#include "engine/text/jinja/status_macros.h"
#include "engine/text/jinja/string_escapes.h"

namespace thresher::jinja {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || (c & 0x80) != 0;
}
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c); }

// Line ends become "\n", and one at the very end is dropped.
std::string NormalizeSource(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      text += '\n';
    } else {
      text += source[i];
    }
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (position_ < source_.size()) JINJA_RETURN_IF_ERROR(LexData());
    Emit(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  absl::Status Error(std::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat("line ", line_, ": ", std::string(message)));
  }

  void Emit(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  bool At(std::string_view text) const {
    return std::string_view(source_).substr(position_, text.size()) == text;
  }

  // Moves on, counting lines, and remembers whether the next text starts a line.
  void Advance(std::size_t count) {
    std::string_view passed = std::string_view(source_).substr(position_, count);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    if (!passed.empty()) line_starting_ = passed.back() == '\n';
    position_ += passed.size();
  }

  void SkipSpace() {
    std::size_t end = position_;
    while (end < source_.size()) {
      std::size_t next = end;
      if (!IsSpace(NextCodePoint(source_, next))) break;
      end = next;
    }
    Advance(end - position_);
  }

  // Text before a tag, cut as the tag's sign and lstrip_blocks ask.
  std::string_view CutBefore(std::string_view text, char sign, bool is_variable) const {
    if (sign == '-') return StripRight(text, std::nullopt);
    if (sign == '+' || is_variable) return text;
    std::size_t line_start = text.rfind('\n') + 1;  // 0 if there is none
    if (line_start == 0 && !line_starting_) return text;
    bool blank = StripLeft(text.substr(line_start), std::nullopt).empty();
    return blank ? text.substr(0, line_start) : text;
  }

  absl::Status LexData() {
    std::size_t tag = source_.find('{', position_);
    while (tag != std::string::npos && tag + 1 < source_.size() && source_[tag + 1] != '{' &&
           source_[tag + 1] != '%' && source_[tag + 1] != '#') {
      tag = source_.find('{', tag + 1);
    }
    if (tag == std::string::npos || tag + 1 >= source_.size()) tag = source_.size();
    std::string_view text = std::string_view(source_).substr(position_, tag - position_);
    if (tag == source_.size()) {
      Emit(TokenKind::kData, std::string(text));
      Advance(text.size());
      return absl::OkStatus();
    }
    char type = source_[tag + 1];
    char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    if (sign != '-' && sign != '+') sign = ' ';
    // A variable has no "+" sign: there it is the start of the expression.
    if (type == '{' && sign == '+') sign = ' ';
    std::string_view kept = CutBefore(text, sign, type == '{');
    if (!kept.empty()) Emit(TokenKind::kData, std::string(kept));
    Advance(text.size());
    std::size_t width = sign == ' ' ? 2 : 3;
    if (type == '#') return LexComment(width);
    if (type == '%' && IsRaw(tag + width)) return LexRaw(width);
    Advance(width);
    Emit(type == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "");
    return LexTag(type == '{');
  }

  absl::Status LexComment(std::size_t width) {
    std::size_t end = source_.find("#}", position_ + width);
    if (end == std::string::npos) return Error("Missing end of comment tag");
    char sign = end > position_ + width ? source_[end - 1] : ' ';
    Advance(end + 2 - position_);
    AfterTag(sign);
    return absl::OkStatus();
  }

  // trim_blocks: a block or comment takes one line end with it; "-" takes all space, "+" nothing.
  void AfterTag(char sign) {
    if (sign == '-') {
      SkipSpace();
    } else if (sign != '+' && At("\n")) {
      Advance(1);
    }
  }

  // Whether a block that starts at `at` (after its sign) is {% raw %}.
  bool IsRaw(std::size_t at) const { return EndOfWordTag(at, "raw") != std::string::npos; }

  // The end of `word %}` with its signs, or npos.
  std::size_t EndOfWordTag(std::size_t at, std::string_view word) const {
    std::string_view source = source_;
    auto skip = [&] {
      while (at < source.size() && IsSpace(static_cast<unsigned char>(source[at]))) ++at;
    };
    skip();
    if (source.substr(at, word.size()) != word) return std::string::npos;
    at += word.size();
    skip();
    bool signed_end = at < source.size() && (source[at] == '-' || source[at] == '+');
    if (source.substr(at + signed_end, 2) != "%}") return std::string::npos;
    return at + signed_end + 2;
  }

  absl::Status LexRaw(std::size_t width) {
    std::size_t begin_end = EndOfWordTag(position_ + width, "raw");
    // trim_blocks does not act on the start of a raw block.
    bool strips = source_[begin_end - 3] == '-';
    Advance(begin_end - position_);
    if (strips) SkipSpace();
    for (std::size_t tag = source_.find("{%", position_); tag != std::string::npos;
         tag = source_.find("{%", tag + 1)) {
      char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
      bool has_sign = sign == '-' || sign == '+';
      std::size_t end = EndOfWordTag(tag + 2 + has_sign, "endraw");
      if (end == std::string::npos) continue;
      std::string_view text = std::string_view(source_).substr(position_, tag - position_);
      std::string_view kept = CutBefore(text, sign, false);
      if (!kept.empty()) Emit(TokenKind::kData, std::string(kept));
      Advance(end - position_);
      AfterTag(source_[end - 3]);
      return absl::OkStatus();
    }
    return Error("Missing end of raw directive");
  }

  // Inside {{ }} or {% %}, until its end outside all brackets.
  absl::Status LexTag(bool is_variable) {
    const std::string_view close = is_variable ? "}}" : "%}";
    std::string brackets;
    while (true) {
      SkipSpace();
      if (position_ >= source_.size()) return Error("unexpected end of template inside a tag");
      if (brackets.empty()) {
        char sign = source_[position_];
        bool has_sign = sign == '-' || (sign == '+' && !is_variable);
        std::size_t at = position_ + has_sign;
        if (std::string_view(source_).substr(at, 2) == close) {
          Emit(is_variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, "");
          Advance(at + 2 - position_);
          if (!is_variable) {
            AfterTag(has_sign ? sign : ' ');
          } else if (has_sign) {
            SkipSpace();
          }
          return absl::OkStatus();
        }
      }
      JINJA_RETURN_IF_ERROR(LexToken(brackets));
    }
  }

  absl::Status LexToken(std::string& brackets) {
    char c = source_[position_];
    if (IsDigit(c)) return LexNumber();
    if (IsNameStart(c)) {
      std::size_t end = position_;
      while (end < source_.size() && IsNamePart(source_[end])) ++end;
      Emit(TokenKind::kName, source_.substr(position_, end - position_));
      Advance(end - position_);
      return absl::OkStatus();
    }
    if (c == '"' || c == '\'') return LexString(c);
    return LexOperator(brackets);
  }

  absl::Status LexString(char quote) {
    std::size_t end = position_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return Error("unexpected end of a string");
    auto value = Unescape(std::string_view(source_).substr(position_ + 1, end - position_ - 1));
    if (!value.ok()) {
      return absl::Status(value.status().code(),
                          absl::StrCat("line ", line_, ": ", value.status().message()));
    }
    Emit(TokenKind::kString, *std::move(value));
    Advance(end + 1 - position_);
    return absl::OkStatus();
  }

  // Digits of one kind, with single underscores between them.
  std::size_t DigitsFrom(std::size_t at, bool (*is_digit)(char)) const {
    std::size_t end = at;
    while (end < source_.size()) {
      bool underscore = source_[end] == '_' && end > at;
      std::size_t digit = end + underscore;
      if (digit >= source_.size() || !is_digit(source_[digit])) break;
      end = digit + 1;
    }
    return end;
  }

  absl::Status LexNumber() {
    auto take = [&](TokenKind kind, std::size_t end) {
      std::string text = source_.substr(position_, end - position_);
      text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
      Emit(kind, std::move(text));
      Advance(end - position_);
      return absl::OkStatus();
    };
    auto is_decimal = [](char c) { return IsDigit(c); };
    if (source_[position_] == '0' && position_ + 2 < source_.size()) {
      char base = static_cast<char>(source_[position_ + 1] | 0x20);
      bool (*digit)(char) = nullptr;
      if (base == 'x')
        digit = [](char d) { return std::isxdigit(static_cast<unsigned char>(d)) != 0; };
      if (base == 'o') digit = [](char d) { return d >= '0' && d <= '7'; };
      if (base == 'b') digit = [](char d) { return d == '0' || d == '1'; };
      if (digit != nullptr) {
        std::size_t end = DigitsFrom(position_ + 2, digit);
        if (end > position_ + 2) return take(TokenKind::kInteger, end);
      }
    }
    std::size_t end = DigitsFrom(position_, is_decimal);
    // In `x.0.1` the digits are subscripts, not a fraction.
    bool after_dot = position_ > 0 && source_[position_ - 1] == '.';
    bool is_float = false;
    if (!after_dot && end + 1 < source_.size() && source_[end] == '.' &&
        IsDigit(source_[end + 1])) {
      end = DigitsFrom(end + 1, is_decimal);
      is_float = true;
    }
    if (!after_dot && end < source_.size() && (source_[end] | 0x20) == 'e') {
      std::size_t digits = end + 1;
      if (digits < source_.size() && (source_[digits] == '+' || source_[digits] == '-')) ++digits;
      std::size_t exponent_end = DigitsFrom(digits, is_decimal);
      if (exponent_end > digits) {
        end = exponent_end;
        is_float = true;
      }
    }
    if (!is_float && source_[position_] == '0') {
      // Like Python, no leading zeros: 007 is not one number.
      while (end > position_ + 1 && source_.find_first_not_of("0_", position_) < end) --end;
    }
    return take(is_float ? TokenKind::kFloat : TokenKind::kInteger, end);
  }

  absl::Status LexOperator(std::string& brackets) {
    static constexpr std::array<std::string_view, 6> kTwo = {"//", "**", "==", "!=", "<=", ">="};
    for (std::string_view op : kTwo) {
      if (!At(op)) continue;
      Emit(TokenKind::kOperator, std::string(op));
      Advance(2);
      return absl::OkStatus();
    }
    char c = source_[position_];
    if (std::string_view("+-/*%~[](){}=><.:|,;").find(c) == std::string_view::npos) {
      return Error(absl::StrCat("unexpected char '", std::string(1, c), "'"));
    }
    if (c == '{') brackets += '}';
    if (c == '(') brackets += ')';
    if (c == '[') brackets += ']';
    if (c == '}' || c == ')' || c == ']') {
      if (brackets.empty() || brackets.back() != c) {
        return Error(absl::StrCat("unexpected '", std::string(1, c), "'"));
      }
      brackets.pop_back();
    }
    Emit(TokenKind::kOperator, std::string(1, c));
    Advance(1);
    return absl::OkStatus();
  }

  const std::string source_;
  std::size_t position_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source) {
  return Lexer(NormalizeSource(source)).Run();
}

}  // namespace thresher::jinja
