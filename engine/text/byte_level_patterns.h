// How the byte-level tokenizers of known model families cut text, by the names GGUF files use.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace thresher {

// GPT-2's pattern, which ByteLevel pre-tokenizers use.
extern const std::string_view kGpt2Pattern;

struct ByteLevelScheme {
  std::vector<std::string_view> patterns;  // each isolates its matches within the pieces so far
  bool nfc = false;
  bool ignore_merges = false;
  bool adds_bos = false;  // if the file does not say
};

// By the name in tokenizer.ggml.pre. Absent if not known.
std::optional<ByteLevelScheme> FindByteLevelScheme(std::string_view pre);

}  // namespace thresher
