// A pattern that cuts text: a regular expression, or a plain string.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace thresher {

struct TextRange {
  std::size_t begin = 0, end = 0;
};

// Immutable; any thread.
class SplitPattern {
 public:
  // Unimplemented as TranslateRegex, or naming what PCRE2 does not compile.
  static absl::StatusOr<std::unique_ptr<SplitPattern>> FromRegex(std::string_view regex);
  // `literal` is not empty.
  static std::unique_ptr<SplitPattern> FromLiteral(std::string_view literal);
  virtual ~SplitPattern() = default;

  // Looks through texts one after the other. One thread; the pattern outlives it.
  class Scanner {
   public:
    virtual ~Scanner() = default;
    // Starts on a valid UTF-8 text that outlives the search.
    virtual void Start(std::string_view text) = 0;
    // The next match, left to right, not overlapping; a match may be empty, but not right at the
    // end of the one before it. InvalidArgument if the text needs more steps than PCRE2 allows.
    virtual absl::StatusOr<std::optional<TextRange>> Next() = 0;
  };
  virtual std::unique_ptr<Scanner> NewScanner() const = 0;
};

}  // namespace thresher
