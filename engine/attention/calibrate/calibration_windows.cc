#include "engine/attention/calibrate/calibration_windows.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/mapped_file.h"

namespace thresher {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{256} << 20;

// Cuts the tokens into pieces of `length`, each behind `prefix`; returns what is left.
std::span<const TokenId> CutPieces(std::span<const TokenId> tokens, std::size_t length, int file,
                                   const std::vector<TokenId>& prefix,
                                   std::vector<TextWindow>& windows) {
  for (; tokens.size() >= length; tokens = tokens.subspan(length)) {
    TextWindow window{file, prefix};
    window.tokens.insert(window.tokens.end(), tokens.begin(),
                         tokens.begin() + static_cast<std::ptrdiff_t>(length));
    windows.push_back(std::move(window));
  }
  return tokens;
}

void Shuffle(std::vector<TextWindow>& windows, std::mt19937_64& random) {
  for (std::size_t i = windows.size(); i > 1; --i) std::swap(windows[i - 1], windows[random() % i]);
}

// One window of each file in turn, until there are no more.
std::vector<TextWindow> DealOut(std::vector<std::vector<TextWindow>> by_file, int max_windows) {
  std::vector<TextWindow> dealt;
  for (std::size_t round = 0;; ++round) {
    bool any = false;
    for (std::vector<TextWindow>& windows : by_file) {
      if (round >= windows.size()) continue;
      any = true;
      if (max_windows > 0 && static_cast<int>(dealt.size()) == max_windows) return dealt;
      dealt.push_back(std::move(windows[round]));
    }
    if (!any) return dealt;
  }
}

}  // namespace

absl::StatusOr<std::vector<TextFile>> ReadTextFiles(std::span<const std::string> paths) {
  std::vector<TextFile> files;
  for (const std::string& path : paths) {
    absl::StatusOr<std::string> text = ReadTextFile(path, kMaxTextBytes);
    if (!text.ok()) return text.status();
    files.push_back({path, *std::move(text)});
  }
  return files;
}

absl::StatusOr<std::vector<TokenId>> BeginningOf(const Tokenizer& tokenizer) {
  std::vector<TokenId> tokens;
  if (absl::Status status = tokenizer.Encode("", {}, tokens); !status.ok()) return status;
  // Of the tokens that an empty text gets, only a beginning token stands in front of every prompt.
  const bool begins = !tokens.empty() && tokens.front() == tokenizer.bos();
  tokens.resize(begins ? 1 : 0);
  return tokens;
}

absl::StatusOr<std::vector<TextWindow>> CutWindows(const Tokenizer& tokenizer,
                                                   std::span<const TextFile> files,
                                                   const WindowOptions& options) {
  const absl::StatusOr<std::vector<TokenId>> prefix = BeginningOf(tokenizer);
  if (!prefix.ok()) return prefix.status();
  const std::size_t length = static_cast<std::size_t>(options.length) - prefix->size();
  std::vector<std::vector<TextWindow>> by_file(files.size() + 1);
  std::vector<TokenId> rest;
  std::int64_t num_tokens = 0;
  int first_of_rest = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::vector<TokenId> tokens;
    if (absl::Status status = tokenizer.Encode(
            files[i].text, {.add_special_tokens = false, .parse_special_tokens = false}, tokens);
        !status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat(files[i].name, ": ", std::string(status.message())));
    }
    num_tokens += static_cast<std::int64_t>(tokens.size());
    const auto file = static_cast<int>(i);
    const std::span<const TokenId> left = CutPieces(tokens, length, file, *prefix, by_file[i]);
    if (rest.empty()) first_of_rest = file;
    rest.insert(rest.end(), left.begin(), left.end());
  }
  CutPieces(rest, length, first_of_rest, *prefix, by_file.back());
  std::mt19937_64 random(options.seed);
  for (std::vector<TextWindow>& windows : by_file) Shuffle(windows, random);
  std::vector<TextWindow> dealt = DealOut(std::move(by_file), options.max_windows);
  if (dealt.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("text: ", num_tokens, " tokens do not fill a window of ", options.length,
                     "; give more text, or a smaller --max-length"));
  }
  return dealt;
}

}  // namespace thresher
