// PCRE2 with its just-in-time compiler, where the library has one.
#include "engine/text/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "absl/strings/str_cat.h"
#include "engine/text/regex_dialect.h"
#include "engine/text/utf8.h"

namespace thresher {
namespace {

template <auto kFree>
struct Freer {
  template <typename T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};
using CodePtr = std::unique_ptr<pcre2_code, Freer<pcre2_code_free>>;
using MatchDataPtr = std::unique_ptr<pcre2_match_data, Freer<pcre2_match_data_free>>;
using MatchContextPtr = std::unique_ptr<pcre2_match_context, Freer<pcre2_match_context_free>>;
using CompileContextPtr = std::unique_ptr<pcre2_compile_context, Freer<pcre2_compile_context_free>>;
using JitStackPtr = std::unique_ptr<pcre2_jit_stack, Freer<pcre2_jit_stack_free>>;

constexpr std::size_t kFirstJitStackBytes = 32 << 10;
constexpr std::size_t kMaxJitStackBytes = 16 << 20;

std::string ErrorText(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

class RegexScanner final : public SplitPattern::Scanner {
 public:
  explicit RegexScanner(const pcre2_code& code)
      : code_(code),
        match_data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)) {}

  void Start(std::string_view text) override {
    text_ = text;
    from_ = 0;
    last_end_.reset();
  }

  absl::StatusOr<std::optional<TextRange>> Next() override {
    while (from_ <= text_.size()) {
      const int result = Match();
      if (result == PCRE2_ERROR_NOMATCH) break;
      if (result < 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the text is too hard for the pre-tokenizer's pattern: ", ErrorText(result)));
      }
      const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(match_data_.get());
      const TextRange range{offsets[0], offsets[1]};
      const bool empty = range.begin == range.end;
      from_ = empty ? AfterCodePoint(range.end) : range.end;
      if (empty && range.end == last_end_) continue;
      last_end_ = range.end;
      return std::optional<TextRange>(range);
    }
    from_ = text_.size() + 1;
    return std::optional<TextRange>();
  }

 private:
  std::size_t AfterCodePoint(std::size_t at) const {
    return at == text_.size() ? at + 1 : at + ReadUtf8(text_.substr(at)).length;
  }

  int Match() {
    const auto match = [&] {
      return pcre2_match(&code_, reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), from_,
                         PCRE2_NO_UTF_CHECK, match_data_.get(), context_.get());
    };
    const int result = match();
    if (result != PCRE2_ERROR_JIT_STACKLIMIT || jit_stack_ != nullptr) return result;
    // The machine stack's 32 KiB are enough for nearly all text; only hostile text comes here.
    jit_stack_.reset(pcre2_jit_stack_create(kFirstJitStackBytes, kMaxJitStackBytes, nullptr));
    pcre2_jit_stack_assign(context_.get(), nullptr, jit_stack_.get());
    return match();
  }

  const pcre2_code& code_;
  MatchDataPtr match_data_;
  JitStackPtr jit_stack_;
  MatchContextPtr context_;
  std::string_view text_;
  std::size_t from_ = 0;
  std::optional<std::size_t> last_end_;
};

class RegexPattern final : public SplitPattern {
 public:
  explicit RegexPattern(CodePtr code) : code_(std::move(code)) {}
  std::unique_ptr<Scanner> NewScanner() const override {
    return std::make_unique<RegexScanner>(*code_);
  }

 private:
  CodePtr code_;
};

class LiteralScanner final : public SplitPattern::Scanner {
 public:
  explicit LiteralScanner(std::string_view literal) : literal_(literal) {}
  void Start(std::string_view text) override {
    text_ = text;
    from_ = 0;
  }
  absl::StatusOr<std::optional<TextRange>> Next() override {
    const std::size_t begin = text_.find(literal_, from_);
    if (begin == std::string_view::npos) return std::optional<TextRange>();
    from_ = begin + literal_.size();
    return std::optional<TextRange>({begin, from_});
  }

 private:
  std::string_view literal_;
  std::string_view text_;
  std::size_t from_ = 0;
};

class LiteralPattern final : public SplitPattern {
 public:
  explicit LiteralPattern(std::string_view literal) : literal_(literal) {}
  std::unique_ptr<Scanner> NewScanner() const override {
    return std::make_unique<LiteralScanner>(literal_);
  }

 private:
  std::string literal_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SplitPattern>> SplitPattern::FromRegex(std::string_view regex) {
  const absl::StatusOr<std::string> translated = TranslateRegex(regex);
  if (!translated.ok()) return translated.status();
  const CompileContextPtr context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  CodePtr code(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_AUTO_CAPTURE | PCRE2_NEVER_BACKSLASH_C,
      &error, &error_offset, context.get()));
  if (code == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("pattern '", std::string(regex), "': ", ErrorText(error)));
  }
  // A library built without the compiler interprets, which finds the same matches.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return std::make_unique<RegexPattern>(std::move(code));
}

std::unique_ptr<SplitPattern> SplitPattern::FromLiteral(std::string_view literal) {
  return std::make_unique<LiteralPattern>(literal);
}

}  // namespace thresher
