// Texts as windows of tokens: what a calibration, or an evaluation, runs a model over.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/tokenizer.h"
#include "scheduler/ids.h"

namespace thresher {

struct TextFile {
  std::string name;  // for messages
  std::string text;  // UTF-8
};

// The texts of these files. As ReadTextFile, naming the file; at most 256 MiB each.
absl::StatusOr<std::vector<TextFile>> ReadTextFiles(std::span<const std::string> paths);

// What the tokenizer puts in front of every prompt: its beginning token, or nothing.
absl::StatusOr<std::vector<TokenId>> BeginningOf(const Tokenizer& tokenizer);

struct WindowOptions {
  int length = 0;  // tokens of a window, its beginning token (if the tokenizer adds one) included
  int max_windows = 0;  // 0: all there are
  std::uint64_t seed = 0;
};

struct TextWindow {
  int file = 0;  // index; of a window that several files share: the first
  std::vector<TokenId> tokens;
};

// Cuts each text into windows of exactly `length` tokens. What is left at the ends, and files that
// are shorter, are joined, in order, into further windows. Windows are shuffled by the seed within
// a file and dealt out file by file, so that the first few speak for all files. InvalidArgument if
// a text is not UTF-8 (naming file and byte) or if all of them do not fill one window, saying how
// many tokens there are.
absl::StatusOr<std::vector<TextWindow>> CutWindows(const Tokenizer& tokenizer,
                                                   std::span<const TextFile> files,
                                                   const WindowOptions& options);

}  // namespace thresher
