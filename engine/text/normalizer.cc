// Unicode data comes from utf8proc; the reordering of marks is our own, because the library's is
// quadratic in a run of marks.
#include "engine/text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/text/utf8.h"

namespace thresher {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;

// Every code point below U+0300 is its own form C, and none of them changes by what follows unless
// that lies at or beyond U+0300. UTF-8 writes those with a first byte of 0xCC or more.
bool IsTriviallyNfc(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char byte) { return static_cast<unsigned char>(byte) >= 0xCC; });
}

int CombiningClass(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

void AppendDecomposed(std::uint32_t code_point, std::vector<utf8proc_int32_t>& out) {
  constexpr int kMaxDecomposed = 8;  // canonical decompositions have at most 4 code points
  utf8proc_int32_t buffer[kMaxDecomposed];
  int last_boundclass = 0;
  const utf8proc_ssize_t count = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(code_point), buffer, kMaxDecomposed,
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE), &last_boundclass);
  if (count <= 0 || count > kMaxDecomposed) {
    out.push_back(static_cast<utf8proc_int32_t>(code_point));
    return;
  }
  out.insert(out.end(), buffer, buffer + count);
}

// Canonical order: each run of marks stably by combining class.
void OrderMarks(std::vector<utf8proc_int32_t>& code_points) {
  auto begin = code_points.begin();
  while (begin != code_points.end()) {
    if (CombiningClass(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, code_points.end(),
                                  [](utf8proc_int32_t c) { return CombiningClass(c) == 0; });
    std::stable_sort(begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return CombiningClass(a) < CombiningClass(b);
    });
    begin = end;
  }
}

class Nfc final : public Normalizer {
 public:
  absl::Status Apply(std::string& text) const override {
    if (IsTriviallyNfc(text)) return absl::OkStatus();
    std::vector<utf8proc_int32_t> code_points;
    code_points.reserve(text.size());
    for (std::string_view rest = text; !rest.empty();) {
      const Utf8Step step = ReadUtf8(rest);
      AppendDecomposed(step.code_point, code_points);
      rest.remove_prefix(step.length);
    }
    OrderMarks(code_points);
    const utf8proc_ssize_t count = utf8proc_normalize_utf32(
        code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    if (count < 0) return absl::InvalidArgumentError(utf8proc_errmsg(count));
    text.clear();
    for (utf8proc_ssize_t i = 0; i < count; ++i) AppendUtf8(code_points[i], text);
    return absl::OkStatus();
  }
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  absl::Status Apply(std::string& text) const override {
    if (!text.empty()) text.insert(0, prefix_);
    return absl::OkStatus();
  }

 private:
  std::string prefix_;
};

class Replace final : public Normalizer {
 public:
  Replace(std::unique_ptr<SplitPattern> pattern, std::string replacement)
      : pattern_(std::move(pattern)), replacement_(std::move(replacement)) {}

  absl::Status Apply(std::string& text) const override {
    const std::unique_ptr<SplitPattern::Scanner> scanner = pattern_->NewScanner();
    scanner->Start(text);
    std::string replaced;
    std::size_t done = 0;
    while (true) {
      const absl::StatusOr<std::optional<TextRange>> match = scanner->Next();
      if (!match.ok()) return match.status();
      if (!match->has_value()) break;
      replaced.append(text, done, (*match)->begin - done).append(replacement_);
      done = (*match)->end;
      if (replaced.size() > kMaxTextBytes) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the normalized text is longer than the limit of ", kMaxTextBytes, " bytes"));
      }
    }
    replaced.append(text, done, std::string::npos);
    text = std::move(replaced);
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<SplitPattern> pattern_;
  std::string replacement_;
};

}  // namespace

std::unique_ptr<Normalizer> MakeNfc() { return std::make_unique<Nfc>(); }

std::unique_ptr<Normalizer> MakePrepend(std::string prefix) {
  return std::make_unique<Prepend>(std::move(prefix));
}

std::unique_ptr<Normalizer> MakeReplace(std::unique_ptr<SplitPattern> pattern,
                                        std::string replacement) {
  return std::make_unique<Replace>(std::move(pattern), std::move(replacement));
}

}  // namespace thresher
