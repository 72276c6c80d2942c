// One pass over the pattern that copies what both engines read alike and knows where it is: inside
// or outside a class.
#include "engine/text/regex_dialect.h"

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/text/utf8.h"

namespace thresher {
namespace {

// Unicode White_Space and its complement, as the inside of a class.
constexpr std::string_view kSpace =
    R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNoSpace =
    R"(\x{0}-\x{8}\x{e}-\x{1f}!-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff})"
    R"(\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";

class Translator final {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  absl::StatusOr<std::string> Run() {
    if (ValidUtf8Length(pattern_) != pattern_.size()) {
      return absl::InvalidArgumentError("the pattern is not UTF-8");
    }
    while (at_ < pattern_.size()) {
      if (absl::Status status = Step(); !status.ok()) return status;
    }
    return std::move(out_);
  }

 private:
  absl::Status Step() {
    switch (pattern_[at_]) {
      case '\\':
        return Escape(/*in_class=*/false);
      case '[':
        return Class();
      case '(':
        return Group();
      case '{':
        return Count();
      default:
        out_.push_back(pattern_[at_++]);
        return absl::OkStatus();
    }
  }

  absl::Status Unknown(std::string_view construct, std::size_t at) const {
    return absl::UnimplementedError(absl::StrCat("'", std::string(construct), "' at byte ", at,
                                                 " of pattern '", std::string(pattern_), "'"));
  }

  bool Follows(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }

  absl::Status Group() {
    for (const std::string_view opening : {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
      if (!Follows(opening)) continue;
      out_.append(opening);
      at_ += opening.size();
      return absl::OkStatus();
    }
    if (Follows("(?") || Follows("(*")) return Unknown(pattern_.substr(at_, 4), at_);
    out_.push_back(pattern_[at_++]);
    return absl::OkStatus();
  }

  // {2}, {2,} or {2,5}. A possessive one is a plain one, repeated, to Oniguruma.
  absl::Status Count() {
    const std::size_t close = pattern_.find('}', at_);
    const std::string_view count = close == std::string_view::npos
                                       ? pattern_.substr(at_)
                                       : pattern_.substr(at_, close + 1 - at_);
    const bool counts = count.size() > 2 && absl::ascii_isdigit(count[1]) &&
                        count.find_first_not_of("0123456789,", 1) == count.size() - 1;
    const bool possessive = close + 1 < pattern_.size() && pattern_[close + 1] == '+';
    if (!counts || possessive) return Unknown(count, at_);
    out_.append(count);
    at_ = close + 1;
    return absl::OkStatus();
  }

  absl::Status Class() {
    const std::size_t begin = at_;
    out_.push_back(pattern_[at_++]);
    if (Follows("^")) out_.push_back(pattern_[at_++]);
    if (Follows("]")) return Unknown("[]", begin);
    while (at_ < pattern_.size()) {
      if (Follows("]")) {
        out_.push_back(pattern_[at_++]);
        return absl::OkStatus();
      }
      if (Follows("[") || Follows("&&")) return Unknown(pattern_.substr(at_, 2), at_);
      if (Follows("\\")) {
        if (absl::Status status = Escape(/*in_class=*/true); !status.ok()) return status;
      } else {
        out_.push_back(pattern_[at_++]);
      }
    }
    return absl::InvalidArgumentError(absl::StrCat("the class at byte ", begin, " of pattern '",
                                                   std::string(pattern_), "' does not end"));
  }

  absl::Status Escape(bool in_class) {
    const std::size_t begin = at_++;
    if (at_ == pattern_.size()) return Unknown("\\", begin);
    const char letter = pattern_[at_++];
    if (!absl::ascii_isalnum(letter)) {
      // A backslash before a letter beyond ASCII would be an error to PCRE2.
      if (absl::ascii_isascii(letter)) out_.push_back('\\');
      out_.push_back(letter);
      return absl::OkStatus();
    }
    switch (letter) {
      case 'r':
      case 'n':
      case 't':
      case 'f':
        absl::StrAppend(&out_, "\\", std::string(1, letter));
        return absl::OkStatus();
      case 's':
      case 'S':
        AppendSet(letter == 's' ? kSpace : kNoSpace, in_class);
        return absl::OkStatus();
      case 'd':
      case 'D':
        out_.append(letter == 'd' ? "\\p{Nd}" : "\\P{Nd}");
        return absl::OkStatus();
      case 'p':
      case 'P':
        return Property(letter, begin);
      case 'x':
      case 'u':
        return CodePoint(letter, begin);
      default:
        return Unknown(pattern_.substr(begin, 2), begin);
    }
  }

  void AppendSet(std::string_view set, bool in_class) {
    if (!in_class) out_.push_back('[');
    out_.append(set);
    if (!in_class) out_.push_back(']');
  }

  // \p{Lu} is a general category; a longer name is a script.
  absl::Status Property(char letter, std::size_t begin) {
    const std::size_t close = pattern_.find('}', at_);
    if (!Follows("{") || close == std::string_view::npos) {
      return Unknown(pattern_.substr(begin, 3), begin);
    }
    std::string_view name = pattern_.substr(at_ + 1, close - at_ - 1);
    at_ = close + 1;
    bool negated = letter == 'P';
    if (name.starts_with("^")) {
      negated = !negated;
      name.remove_prefix(1);
    }
    for (const char c : name) {
      if (!absl::ascii_isalpha(c)) return Unknown(pattern_.substr(begin, at_ - begin), begin);
    }
    if (name.empty()) return Unknown(pattern_.substr(begin, at_ - begin), begin);
    absl::StrAppend(&out_, negated ? "\\P{" : "\\p{", name.size() > 2 ? "sc:" : "",
                    std::string(name), "}");
    return absl::OkStatus();
  }

  // \x{20ac}, \x41 (below 0x80, since Oniguruma reads a byte) or \u20ac.
  absl::Status CodePoint(char letter, std::size_t begin) {
    std::size_t num_digits = letter == 'x' ? 2 : 4;
    const bool braced = letter == 'x' && Follows("{");
    if (braced) {
      ++at_;
      const std::size_t close = pattern_.find('}', at_);
      num_digits = close == std::string_view::npos ? 0 : close - at_;
    }
    std::uint32_t value = 0;
    bool valid = num_digits >= 1 && num_digits <= 6 && at_ + num_digits <= pattern_.size();
    for (std::size_t i = 0; valid && i < num_digits; ++i) {
      const char digit = absl::ascii_tolower(pattern_[at_ + i]);
      valid = absl::ascii_isxdigit(digit);
      value = value * 16 + (absl::ascii_isdigit(digit) ? digit - '0' : digit - 'a' + 10);
    }
    if (!valid || (letter == 'x' && !braced && value >= 0x80)) {
      return Unknown(pattern_.substr(begin, 4), begin);
    }
    at_ += num_digits + (braced ? 1 : 0);
    out_.append(absl::StrFormat("\\x{%x}", value));
    return absl::OkStatus();
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

absl::StatusOr<std::string> TranslateRegex(std::string_view pattern) {
  return Translator(pattern).Run();
}

}  // namespace thresher
