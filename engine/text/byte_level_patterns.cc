// The patterns are facts of the published tokenizer.json files; which name means which of them is
// the GGUF converter's and reader's (llama.cpp, src/llama-vocab.cpp). A scheme is listed only where
// both agree.
#include "engine/text/byte_level_patterns.h"

#include <algorithm>

namespace thresher {

const std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

constexpr std::string_view kDigit = R"(\p{N})";

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Llama 3's, with digits one by one.
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kGpt4oPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// What "default" means: files converted before models had names of their own.
constexpr std::string_view kPunctuationRun = R"([\p{P}\$\+<=>\^~\|]+)";
constexpr std::string_view kDigitRun = R"(\p{N}+)";
constexpr std::string_view kThreeDigits = "[0-9][0-9][0-9]";

struct SchemeNames {
  std::vector<std::string_view> names;
  ByteLevelScheme scheme;
};

std::vector<SchemeNames> AllSchemes() {
  return {
      {{"default"}, {.patterns = {kPunctuationRun, kGpt2Pattern, kDigitRun, kThreeDigits}}},
      {{"gpt-2", "phi-2"}, {.patterns = {kGpt2Pattern}}},
      {{"smollm", "starcoder"}, {.patterns = {kDigit, kGpt2Pattern}}},
      {{"llama-bpe", "llama3", "llama-v3"},
       {.patterns = {kLlama3Pattern}, .ignore_merges = true, .adds_bos = true}},
      {{"smaug-bpe"}, {.patterns = {kLlama3Pattern}}},
      // Qwen's own tokenizer.json declares form C, which a GGUF file has no key for.
      {{"qwen2"}, {.patterns = {kQwen2Pattern}, .nfc = true}},
      {{"tekken"}, {.patterns = {kTekkenPattern}, .ignore_merges = true, .adds_bos = true}},
      {{"gpt-4o"}, {.patterns = {kGpt4oPattern}}},
  };
}

}  // namespace

std::optional<ByteLevelScheme> FindByteLevelScheme(std::string_view pre) {
  for (SchemeNames& row : AllSchemes()) {
    if (std::find(row.names.begin(), row.names.end(), pre) != row.names.end()) return row.scheme;
  }
  return std::nullopt;
}

}  // namespace thresher
