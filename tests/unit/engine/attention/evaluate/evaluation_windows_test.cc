#include "engine/attention/evaluate/evaluation_windows.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/support/fakes/fake_tokenizer.h"

namespace thresher {
namespace {

// Bytes behind the token 300, unless a caller wants none.
class BeginningTokenizer final : public Tokenizer {
 public:
  absl::Status Encode(std::string_view text, const EncodeOptions& options,
                      std::vector<TokenId>& ids) const override {
    if (options.add_special_tokens) ids.push_back(300);
    return bytes_.Encode(text, options, ids);
  }
  std::string_view TokenBytes(TokenId id) const override { return bytes_.TokenBytes(id); }
  bool strips_leading_space() const override { return false; }
  bool IsSpecial(TokenId id) const override { return id == 300; }
  int vocab_size() const override { return bytes_.vocab_size(); }
  std::optional<TokenId> bos() const override { return 300; }
  std::optional<TokenId> eos() const override { return std::nullopt; }
  std::optional<TokenId> Find(std::string_view token) const override { return bytes_.Find(token); }

 private:
  FakeTokenizer bytes_{400};
};

// Byte i of the text is i, so that a window shows where it stands.
TextFile Counting(int length) {
  std::string text;
  for (int i = 0; i < length; ++i) text += static_cast<char>(i);
  return {"counting", text};
}

TEST(EvaluationWindows, LieApartAndHaveANextToken) {
  const std::vector<TextFile> texts = {Counting(100)};
  const auto windows = CutEvaluationWindows(FakeTokenizer(300), texts, 30, 3);
  ASSERT_TRUE(windows.ok()) << windows.status();
  ASSERT_EQ(windows->size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const std::vector<TokenId>& window = (*windows)[i];
    ASSERT_EQ(window.size(), 31u);
    EXPECT_EQ(window.front(), std::vector<TokenId>({0, 34, 69})[i]);
    for (int j = 0; j < 31; ++j) EXPECT_EQ(window[j], window.front() + j);
  }
}

TEST(EvaluationWindows, BeginAsAPromptDoes) {
  const std::vector<TextFile> texts = {Counting(59)};
  const auto windows = CutEvaluationWindows(BeginningTokenizer(), texts, 30, 2);
  ASSERT_TRUE(windows.ok()) << windows.status();
  ASSERT_EQ(windows->size(), 2u);
  for (const std::vector<TokenId>& window : *windows) {
    ASSERT_EQ(window.size(), 31u);
    EXPECT_EQ(window[0], 300);
    for (int j = 1; j < 31; ++j) EXPECT_EQ(window[j], window[1] + j - 1);
  }
  EXPECT_EQ((*windows)[0][1], 0);
  EXPECT_EQ((*windows)[1][1], 29);
}

TEST(EvaluationWindows, ATooShortTextIsNamed) {
  std::vector<TextFile> texts = {Counting(61)};
  EXPECT_TRUE(CutEvaluationWindows(FakeTokenizer(300), texts, 30, 2).ok());
  EXPECT_EQ(CutEvaluationWindows(FakeTokenizer(300), texts, 30, 3).status(),
            absl::InvalidArgumentError("counting: has 61 tokens; 3 windows of 30 take 91"));
  EXPECT_EQ(CutEvaluationWindows(FakeTokenizer(300), texts, 61, 1).status(),
            absl::InvalidArgumentError("counting: has 61 tokens; 1 window of 61 takes 62"));
}

}  // namespace
}  // namespace thresher
