// What a sequence of tokens shows, step by step.
#include "engine/text/detokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/text/utf8.h"
#include "tests/support/fakes/byte_tokenizer.h"

namespace thresher {
namespace {

using ::thresher::testing::ByteTokenizer;

const std::string kReplacement = "\xEF\xBF\xBD";

std::vector<std::string> AllBytes() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  return tokens;
}

// One token a byte. `steps` gets what each token added, and what the end added.
std::string DecodeBytes(const std::string& bytes, std::vector<std::string>* steps = nullptr) {
  const ByteTokenizer tokenizer(AllBytes());
  Detokenizer detokenizer(tokenizer, /*skip_special_tokens=*/true);
  std::string text;
  std::size_t shown = 0;
  const auto step = [&] {
    if (steps != nullptr) steps->push_back(text.substr(shown));
    shown = text.size();
  };
  for (const char byte : bytes) {
    detokenizer.Append(static_cast<unsigned char>(byte), text);
    step();
  }
  detokenizer.Finish(text);
  step();
  return text;
}

TEST(DetokenizerTest, HoldsBackUntilTheCodePointIsWhole) {
  std::vector<std::string> steps;
  DecodeBytes("a\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80z", &steps);
  EXPECT_EQ(steps, (std::vector<std::string>{"a", "", "\xC3\xA9", "", "", "\xE4\xB8\xAD", "", "",
                                             "", "\xF0\x9F\x98\x80", "z", ""}));
}

TEST(DetokenizerTest, WritesOneReplacementForEachMaximalIllFormedPart) {
  // The example of table 3-8 of the Unicode standard.
  EXPECT_EQ(DecodeBytes("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"),
            kReplacement + kReplacement + kReplacement + kReplacement + "A");
  // Tables 3-9 and 3-10: bytes that no code point can hold are replaced one by one.
  EXPECT_EQ(DecodeBytes("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            std::string() + kReplacement + kReplacement + kReplacement + kReplacement +
                kReplacement + kReplacement + kReplacement + kReplacement + "A");
  EXPECT_EQ(DecodeBytes("\xED\xA0\x80\xF4\x91\x80\x80\xFF\x41"),
            std::string() + kReplacement + kReplacement + kReplacement + kReplacement +
                kReplacement + kReplacement + kReplacement + kReplacement + "A");
}

TEST(DetokenizerTest, SaysAtOnceThatAPartIsIllFormed) {
  std::vector<std::string> steps;
  DecodeBytes("\xE4\xB8z", &steps);
  EXPECT_EQ(steps, (std::vector<std::string>{"", "", kReplacement + "z", ""}));
}

TEST(DetokenizerTest, FinishReplacesWhatIsIncomplete) {
  EXPECT_EQ(DecodeBytes("x\xF0\x9F\x98"), "x" + kReplacement);
}

TEST(DetokenizerTest, TokensOfAnyLengthGiveTheSameText) {
  const std::string bytes =
      "\xE4\xB8\xAD\xFF"
      "a\xF0\x9F\x98\x80\xF0\x9F\xE4\xB8"
      "b\xC3";
  const std::string expected = DecodeBytes(bytes);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    for (std::size_t second = cut; second <= bytes.size(); ++second) {
      const ByteTokenizer tokenizer(
          {bytes.substr(0, cut), bytes.substr(cut, second - cut), bytes.substr(second)});
      EXPECT_EQ(Decode(tokenizer, {0, 1, 2}, true), expected) << cut << " " << second;
    }
  }
}

// The reference decides on the whole text: whatever the bytes, a prefix is never taken back and is
// always UTF-8.
TEST(DetokenizerTest, EveryStepIsValidUtf8OnRandomBytes) {
  std::uint32_t state = 12345;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (int i = 0; i < 24; ++i) {
      state = state * 1664525 + 1013904223;
      // Half of the bytes are lead and continuation bytes that come close to being right.
      const char near[] = {'\xE0', '\xA0', '\x80', '\xF4', '\x8F', '\xED', '\x9F', '\xF0'};
      bytes.push_back((state >> 30) % 2 != 0 ? near[(state >> 16) % 8]
                                             : static_cast<char>(state >> 16));
    }
    std::vector<std::string> steps;
    const std::string text = DecodeBytes(bytes, &steps);
    ASSERT_EQ(ValidUtf8Length(text), text.size());
    for (const std::string& step : steps) ASSERT_EQ(ValidUtf8Length(step), step.size());
  }
}

TEST(DetokenizerTest, SkipsSpecialTokensWithoutCuttingACodePoint) {
  const ByteTokenizer tokenizer({"<s>", "\xC3", "\xA9"}, {0});
  EXPECT_EQ(Decode(tokenizer, {0, 1, 0, 2}, /*skip_special_tokens=*/true), "\xC3\xA9");
  EXPECT_EQ(Decode(tokenizer, {0, 1, 2}, /*skip_special_tokens=*/false), "<s>\xC3\xA9");
}

TEST(DetokenizerTest, DropsTheTokenizersOwnSpaceOnlyAtTheStartOfAText) {
  const ByteTokenizer tokenizer({"<s>", " a", "  b"}, {0}, /*strips_leading_space=*/true);
  EXPECT_EQ(Decode(tokenizer, {0, 1, 1}, true), "a a");
  EXPECT_EQ(Decode(tokenizer, {2, 1}, true), " b a");
  Detokenizer after_prompt(tokenizer, true, DetokenizerStart::kAfterPrompt);
  std::string text;
  after_prompt.Append(1, text);
  EXPECT_EQ(text, " a");
}

TEST(DetokenizerTest, IdsOutOfRangeAddNothing) {
  const ByteTokenizer tokenizer({"a"});
  EXPECT_EQ(Decode(tokenizer, {-1, 0, 1, 2147483647}, true), "a");
}

}  // namespace
}  // namespace thresher
