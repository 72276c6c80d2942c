#include "engine/attention/evaluate/evaluation_windows.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace thresher {

absl::StatusOr<std::vector<std::vector<TokenId>>> CutEvaluationWindows(
    const Tokenizer& tokenizer, std::span<const TextFile> texts, int length, int num_windows) {
  const absl::StatusOr<std::vector<TokenId>> beginning = BeginningOf(tokenizer);
  if (!beginning.ok()) return beginning.status();
  // Tokens of text in a window: the last position has a next token too.
  const std::int64_t of_text = std::int64_t{length} - std::ssize(*beginning) + 1;
  std::vector<std::vector<TokenId>> windows;
  for (const TextFile& text : texts) {
    std::vector<TokenId> tokens;
    absl::Status status = tokenizer.Encode(
        text.text, {.add_special_tokens = false, .parse_special_tokens = false}, tokens);
    // Overlapping windows would count the same text twice, and narrow the intervals on nothing.
    const std::int64_t needed = (of_text - 1) * num_windows + 1;
    if (status.ok() && std::ssize(tokens) < needed) {
      status = absl::InvalidArgumentError(
          absl::StrCat("has ", tokens.size(), " tokens; ", num_windows,
                       num_windows == 1 ? " window of " : " windows of ", length,
                       num_windows == 1 ? " takes " : " take ", needed));
    }
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat(text.name, ": ", std::string(status.message())));
    }
    const std::int64_t room = std::ssize(tokens) - of_text;
    for (int i = 0; i < num_windows; ++i) {
      const auto first = tokens.begin() + (num_windows == 1 ? 0 : room * i / (num_windows - 1));
      windows.push_back(*beginning);
      windows.back().insert(windows.back().end(), first, first + of_text);
    }
  }
  return windows;
}

}  // namespace thresher
