// Merge order, unknown code points and their options, by small vocabularies.
#include "engine/text/bpe_model.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/byte_alphabet.h"

namespace thresher {
namespace {

using Merges = BpeModel::Merges;

// The tokens' ids are their places.
struct Model {
  Model(const std::vector<std::string_view>& tokens, const Merges& merges, BpeOptions options) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_TRUE(vocabulary.Add(tokens[i], static_cast<TokenId>(i)).ok());
    }
    if (const auto unknown = vocabulary.Find("<unk>"); unknown.has_value()) {
      options.unknown = unknown;
    }
    auto created = BpeModel::Create(vocabulary, merges, options);
    EXPECT_TRUE(created.ok()) << created.status();
    if (created.ok()) bpe = *std::move(created);
  }

  // Token texts with a bar between. Twice, since the second time may come from the cache.
  std::string Pieces(std::string_view text) const {
    std::vector<TokenId> first, second;
    MergeScratch scratch;
    bpe->Encode(text, scratch, first);
    bpe->Encode(text, scratch, second);
    EXPECT_EQ(first, second);
    std::string pieces;
    for (const TokenId id : first) {
      pieces += (pieces.empty() ? "" : "|") + std::string(vocabulary.Text(id));
    }
    return pieces;
  }

  Vocabulary vocabulary;
  std::unique_ptr<BpeModel> bpe;
};

constexpr BpeOptions kCodePoints{.byte_level = false};

TEST(BpeModelTest, TheBestRankMergesFirstAndTheLeftmostOfEquals) {
  const Model model({"a", "b", "c", "ab", "bc", "abc", "aa"},
                    {{"b", "c"}, {"a", "b"}, {"a", "bc"}, {"a", "a"}}, kCodePoints);
  EXPECT_EQ(model.Pieces("abc"), "abc");
  EXPECT_EQ(model.Pieces("ab"), "ab");
  EXPECT_EQ(model.Pieces("aaa"), "aa|a");
  EXPECT_EQ(model.Pieces("aaab"), "aa|ab");
  EXPECT_EQ(model.Pieces("bcbc"), "bc|bc");
}

// No merge makes "abc" from "ab" and "c", though both and "abc" are tokens.
TEST(BpeModelTest, OnlyListedPairsMerge) {
  const Model model({"a", "b", "c", "ab", "bc", "abc"}, {{"a", "b"}, {"b", "c"}, {"a", "bc"}},
                    kCodePoints);
  EXPECT_EQ(model.Pieces("abc"), "ab|c");
}

TEST(BpeModelTest, AWholePieceIsItsTokenIfMergesAreIgnored) {
  const std::vector<std::string_view> tokens = {"a", "b", "c", "abc"};
  EXPECT_EQ(Model(tokens, {}, {.byte_level = false, .ignore_merges = true}).Pieces("abc"), "abc");
  EXPECT_EQ(Model(tokens, {}, kCodePoints).Pieces("abc"), "a|b|c");
}

TEST(BpeModelTest, UnknownCodePointsFuseOnlyIfAsked) {
  const std::vector<std::string_view> tokens = {"<unk>", "a"};
  const std::string_view text = "\u00e9\u4e2da\u00e9a";
  EXPECT_EQ(Model(tokens, {}, kCodePoints).Pieces(text), "<unk>|<unk>|a|<unk>|a");
  EXPECT_EQ(Model(tokens, {}, {.byte_level = false, .fuse_unknown = true}).Pieces(text),
            "<unk>|a|<unk>|a");
}

TEST(BpeModelTest, WithoutAnUnknownTokenTheyVanish) {
  EXPECT_EQ(Model({"a"}, {}, kCodePoints).Pieces("\u00e9a\u4e2d"), "a");
  EXPECT_EQ(Model({"a"}, {}, {}).Pieces("\u00e9a"), "a");
  EXPECT_EQ(Model({"a"}, {}, kCodePoints).Pieces("\u00e9"), "");
}

TEST(BpeModelTest, ByteFallbackNeedsEveryByteOfTheCodePoint) {
  const std::vector<std::string_view> tokens = {"<unk>", "a", "<0xC3>", "<0xA9>", "<0xE4>"};
  const Model model(tokens, {}, {.byte_level = false, .byte_fallback = true});
  EXPECT_EQ(model.Pieces("a\u00e9"), "a|<0xC3>|<0xA9>");
  EXPECT_EQ(model.Pieces("a\u4e2d"), "a|<unk>");
}

TEST(BpeModelTest, ByteLevelUnknownsFuseOnlyIfAsked) {
  const std::vector<std::string_view> tokens = {"<unk>", "a"};
  EXPECT_EQ(Model(tokens, {}, {}).Pieces("\u00e9a"), "<unk>|<unk>|a");
  EXPECT_EQ(Model(tokens, {}, {.fuse_unknown = true}).Pieces("\u00e9a\u00e9"), "<unk>|a|<unk>");
}

TEST(ByteAlphabetTest, IsTheInverseOfItself) {
  const ByteAlphabet alphabet;
  for (int byte = 0; byte < 256; ++byte) {
    const auto c = static_cast<unsigned char>(byte);
    EXPECT_EQ(alphabet.ToBytes(alphabet.Symbol(c)), std::string(1, static_cast<char>(c)));
  }
  EXPECT_EQ(alphabet.Symbol(' '), "\u0120");
  EXPECT_EQ(alphabet.Symbol('\n'), "\u010a");
  EXPECT_EQ(alphabet.Symbol(0xAD), "\u0143");
  EXPECT_EQ(alphabet.ToBytes("a b"), std::nullopt);
  EXPECT_EQ(alphabet.ToBytes("\u0144"), std::nullopt);
}

}  // namespace
}  // namespace thresher
