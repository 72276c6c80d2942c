// Behaviour that every tokenizer owes its caller, and how added tokens and text meet.
#include "engine/text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/golden_path.h"
#include "tests/support/hard_strings.h"

namespace thresher {
namespace {

using ::thresher::testing::HardStrings;
using ::thresher::testing::ReadTokenizerGolden;

const char* const kGoldenDir = testing::GoldenDir();

std::unique_ptr<Tokenizer> Load(const std::string& name) {
  const std::string bytes = ReadTokenizerGolden(kGoldenDir, name);
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      name.ends_with(".json")
          ? TokenizerFromJson(bytes, R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})")
          : TokenizerFromSentencePiece(bytes, "");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

std::vector<TokenId> Encode(const Tokenizer& tokenizer, const std::string& text,
                            const EncodeOptions& options = {.add_special_tokens = false}) {
  std::vector<TokenId> ids;
  const absl::Status status = tokenizer.Encode(text, options, ids);
  EXPECT_TRUE(status.ok()) << status;
  return ids;
}

std::string RoundTrip(const Tokenizer& tokenizer, const std::string& text) {
  return Decode(tokenizer, Encode(tokenizer, text), /*skip_special_tokens=*/false);
}

class AnyTokenizerTest : public ::testing::TestWithParam<std::string> {};

TEST_P(AnyTokenizerTest, RefusesWhatIsNotUtf8AndLeavesTheIdsAlone) {
  const std::unique_ptr<Tokenizer> tokenizer = Load(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  for (const std::string& bad : {std::string("\x80"), std::string("\xC0\xAF"), std::string("\xC3"),
                                 std::string("\xED\xA0\x80"), std::string("\xF4\x90\x80\x80"),
                                 std::string("\xE4\xB8"), std::string("\xFF")}) {
    std::vector<TokenId> ids = {7};
    const absl::Status status = tokenizer->Encode("ok " + bad, {}, ids);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), "the text is not UTF-8 at byte 3");
    EXPECT_EQ(ids, std::vector<TokenId>{7});
  }
}

TEST_P(AnyTokenizerTest, AppendsToTheIds) {
  const std::unique_ptr<Tokenizer> tokenizer = Load(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  std::vector<TokenId> ids = {7};
  ASSERT_TRUE(tokenizer->Encode("Hello world", {}, ids).ok());
  std::vector<TokenId> alone;
  ASSERT_TRUE(tokenizer->Encode("Hello world", {}, alone).ok());
  alone.insert(alone.begin(), 7);
  EXPECT_EQ(ids, alone);
}

TEST_P(AnyTokenizerTest, AnEmptyTextHasNoTokensOfItsOwn) {
  const std::unique_ptr<Tokenizer> tokenizer = Load(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_TRUE(Encode(*tokenizer, "").empty());
}

TEST_P(AnyTokenizerTest, EveryIdHasConsistentAnswers) {
  const std::unique_ptr<Tokenizer> tokenizer = Load(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->TokenBytes(-1), "");
  EXPECT_EQ(tokenizer->TokenBytes(tokenizer->vocab_size()), "");
  EXPECT_FALSE(tokenizer->IsSpecial(-1));
  EXPECT_FALSE(tokenizer->IsSpecial(tokenizer->vocab_size()));
  EXPECT_EQ(tokenizer->Find("no such token"), std::nullopt);
  for (TokenId id = 0; id < tokenizer->vocab_size(); ++id) {
    EXPECT_FALSE(tokenizer->TokenBytes(id).empty()) << id;
    if (!tokenizer->IsSpecial(id)) continue;
    EXPECT_EQ(tokenizer->Find(tokenizer->TokenBytes(id)), id);
  }
}

TEST_P(AnyTokenizerTest, ThreadsDoNotDisturbEachOther) {
  const std::unique_ptr<Tokenizer> tokenizer = Load(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  const std::vector<std::string> strings = HardStrings(kGoldenDir, 200);
  const std::unique_ptr<Tokenizer> other = Load(GetParam());
  std::vector<std::vector<TokenId>> expected;
  for (const std::string& text : strings) expected.push_back(Encode(*other, text));
  std::vector<std::thread> threads;
  std::vector<int> num_different(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < strings.size(); ++i) {
        const std::size_t index = (i * 7 + static_cast<std::size_t>(t) * 50) % strings.size();
        if (Encode(*tokenizer, strings[index]) != expected[index]) ++num_different[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_different, std::vector<int>(4, 0));
}

INSTANTIATE_TEST_SUITE_P(All, AnyTokenizerTest,
                         ::testing::Values("gpt2.json", "llama3.json", "llama2.json", "flags.json",
                                           "metaspace.json", "sentencepiece_fallback.model",
                                           "sentencepiece_unknown.model"),
                         [](const auto& info) {
                           return info.param.substr(0, info.param.find('.'));
                         });

TEST(TokenizerTest, SpecialTokensAreTextUnlessParsed) {
  const std::unique_ptr<Tokenizer> tokenizer = Load("qwen2.json");
  ASSERT_NE(tokenizer, nullptr);
  const TokenId start = tokenizer->Find("<|im_start|>").value();
  EXPECT_EQ(Encode(*tokenizer, "<|im_start|><|im_start|>"), (std::vector<TokenId>{start, start}));
  const std::vector<TokenId> text = Encode(
      *tokenizer, "<|im_start|>", {.add_special_tokens = false, .parse_special_tokens = false});
  EXPECT_GT(text.size(), 1u);
  EXPECT_EQ(Decode(*tokenizer, text, /*skip_special_tokens=*/true), "<|im_start|>");
}

TEST(TokenizerTest, ConfigNamesTheBeginningAndTheEnd) {
  const std::unique_ptr<Tokenizer> tokenizer = Load("llama2.json");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_TRUE(tokenizer->IsSpecial(1));
  EXPECT_EQ(Encode(*tokenizer, "", {}), (std::vector<TokenId>{1}));
}

TEST(TokenizerTest, AddedTokensTakeTheWhiteSpaceTheyAskFor) {
  const std::unique_ptr<Tokenizer> tokenizer = Load("flags.json");
  ASSERT_NE(tokenizer, nullptr);
  const TokenId t = tokenizer->Find("<t>").value();  // takes what is before
  const TokenId u = tokenizer->Find("<u>").value();  // takes what is after
  EXPECT_EQ(Encode(*tokenizer, "   <t><u>   "), (std::vector<TokenId>{t, u}));
  EXPECT_EQ(RoundTrip(*tokenizer, "   <t>   <u> "), "<t>   <u>");
}

TEST(TokenizerTest, SingleWordTokensStandAlone) {
  const std::unique_ptr<Tokenizer> tokenizer = Load("flags.json");
  ASSERT_NE(tokenizer, nullptr);
  const TokenId token = tokenizer->Find("two words").value();
  const auto has_token = [&](const std::string& text) {
    const std::vector<TokenId> ids = Encode(*tokenizer, text);
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  EXPECT_TRUE(has_token("two words"));
  EXPECT_TRUE(has_token("(two words)"));
  EXPECT_TRUE(has_token("a two words."));
  EXPECT_FALSE(has_token("two wordsy"));
  EXPECT_FALSE(has_token("two words_"));
  EXPECT_FALSE(has_token("two words\u00e9"));
  EXPECT_FALSE(has_token("\u4e2dtwo words"));
  EXPECT_FALSE(has_token("7two words"));
}

TEST(TokenizerTest, NormalizesOnlyWhereDeclared) {
  const std::unique_ptr<Tokenizer> qwen2 = Load("qwen2.json");
  const std::unique_ptr<Tokenizer> gpt2 = Load("gpt2.json");
  ASSERT_TRUE(qwen2 != nullptr && gpt2 != nullptr);
  // Letter and mark, Hangul jamo, and the three ways to write A with a ring.
  const std::vector<std::vector<std::string>> equal = {
      {"\xC3\xA9", "e\xCC\x81"},
      {"\xED\x95\x9C", "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB"},
      {"\xC3\x85", "A\xCC\x8A", "\xE2\x84\xAB"}};
  for (const std::vector<std::string>& forms : equal) {
    for (const std::string& form : forms) {
      EXPECT_EQ(Encode(*qwen2, form), Encode(*qwen2, forms[0]));
      EXPECT_EQ(RoundTrip(*qwen2, form), forms[0]);
      EXPECT_EQ(RoundTrip(*gpt2, form), form);
    }
  }
}

TEST(TokenizerTest, SentencePieceKeepsLeadingSpacesAndNewlines) {
  const std::unique_ptr<Tokenizer> tokenizer = Load("sentencepiece_fallback.model");
  ASSERT_NE(tokenizer, nullptr);
  for (const std::string text : {"Hello", " Hello", "  Hello", "   Hello", "    Hello",
                                 "    a\n    b", "a\n\nb", "\n\n\n\n", "\t", " "}) {
    EXPECT_EQ(RoundTrip(*tokenizer, text), text);
  }
}

TEST(TokenizerTest, SentencePieceParsesControlTokensAndStartsAnewAfterThem) {
  const std::unique_ptr<Tokenizer> tokenizer = Load("sentencepiece_fallback.model");
  ASSERT_NE(tokenizer, nullptr);
  const TokenId control = tokenizer->Find("[INST]").value();
  EXPECT_TRUE(tokenizer->IsSpecial(control));
  std::vector<TokenId> expected = {control};
  for (const TokenId id : Encode(*tokenizer, "Hello")) expected.push_back(id);
  EXPECT_EQ(Encode(*tokenizer, "[INST]Hello"), expected);
  const std::vector<TokenId> text =
      Encode(*tokenizer, "[INST]", {.add_special_tokens = false, .parse_special_tokens = false});
  EXPECT_EQ(std::find(text.begin(), text.end(), control), text.end());
}

TEST(TokenizerTest, SentencePieceAddsWhatTheConfigSays) {
  const std::string model = ReadTokenizerGolden(kGoldenDir, "sentencepiece_fallback.model");
  const auto encode = [&](const std::string& config) {
    const auto tokenizer = TokenizerFromSentencePiece(model, config);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return Encode(**tokenizer, "", {});
  };
  EXPECT_EQ(encode(""), (std::vector<TokenId>{1}));
  EXPECT_EQ(encode(R"({"add_bos_token": true, "add_eos_token": true})"),
            (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(encode(R"({"add_bos_token": false})"), std::vector<TokenId>{});
}

}  // namespace
}  // namespace thresher
