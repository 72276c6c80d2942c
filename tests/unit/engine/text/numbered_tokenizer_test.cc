#include "engine/text/numbered_tokenizer.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace thresher {
namespace {

TEST(NumberedTokenizer, WritesTextsAsTheirBytes) {
  const NumberedTokenizer tokenizer(300);
  std::vector<TokenId> ids = {7};
  ASSERT_TRUE(tokenizer.Encode("a\xc3\xa9", {}, ids).ok());
  EXPECT_EQ(ids, (std::vector<TokenId>{7, 0x61, 0xc3, 0xa9}));
  ids.erase(ids.begin());
  EXPECT_EQ(Decode(tokenizer, ids, false), "a\xc3\xa9");
  EXPECT_EQ(tokenizer.Encode("\xff", {}, ids).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ids.size(), 3u);
}

TEST(NumberedTokenizer, ReadsLargerTokensAsTheirNumber) {
  const NumberedTokenizer tokenizer(300);
  EXPECT_EQ(tokenizer.vocab_size(), 300);
  EXPECT_EQ(tokenizer.TokenBytes(256), "<256>");
  EXPECT_EQ(tokenizer.TokenBytes(299), "<299>");
  EXPECT_EQ(tokenizer.TokenBytes(0), std::string_view("\0", 1));
  EXPECT_EQ(tokenizer.TokenBytes(300), "");
  EXPECT_EQ(tokenizer.TokenBytes(-1), "");
}

TEST(NumberedTokenizer, FindsTokensByTheirText) {
  const NumberedTokenizer tokenizer(300);
  for (TokenId id = 0; id < 300; ++id) {
    EXPECT_EQ(tokenizer.Find(tokenizer.TokenBytes(id)), id);
  }
  for (const char* text : {"", "<300>", "<7>", "<0299>", "<-1>", "[299]", "ab", "<>"}) {
    EXPECT_EQ(tokenizer.Find(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace thresher
