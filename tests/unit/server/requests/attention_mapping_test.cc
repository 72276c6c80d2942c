#include "server/requests/attention_mapping.h"

#include <gtest/gtest.h>

#include "server/requests/wire_error.h"

namespace thresher {
namespace {

const std::vector<AttentionChoice> kLevels = {
    AttentionChoice{}, AttentionChoice{.level = "light", .prefill = {}, .decode = {}}};

std::string LevelOf(const AttentionWish& wish, const char* header, const char* key) {
  const auto choice = ResolveAttention(wish, header, key, kLevels, "off");
  EXPECT_TRUE(choice.ok()) << choice.status();
  return choice.ok() ? choice->level : "";
}

TEST(AttentionMappingTest, BodyThenHeaderThenKeyThenServer) {
  AttentionWish none;
  AttentionWish light{.given = true, .level = "light", .prefill = {}, .decode = {}};
  AttentionWish empty{.given = true, .level = {}, .prefill = {}, .decode = {}};
  EXPECT_EQ(LevelOf(none, "", ""), "off");
  EXPECT_EQ(LevelOf(none, "", "light"), "light");
  EXPECT_EQ(LevelOf(none, "off", "light"), "off");
  EXPECT_EQ(LevelOf(light, "off", "off"), "light");
  // An object without a level starts from off, whatever stands behind it.
  EXPECT_EQ(LevelOf(empty, "light", "light"), "off");
}

TEST(AttentionMappingTest, AFieldBesideTheLevelMakesItCustom) {
  AttentionWish wish{.given = true,
                     .level = "light",
                     .prefill = {.policy = "dense", .parameters = {}},
                     .decode = {}};
  EXPECT_EQ(LevelOf(wish, "", ""), "custom");
}

TEST(AttentionMappingTest, ErrorsNameTheField) {
  const struct {
    AttentionWish wish;
    const char* header;
    const char* param;
  } cases[] = {
      {{.given = true, .level = "extreme", .prefill = {}, .decode = {}}, "", "attention.level"},
      {{}, "extreme", "x-attention-level"},
      {{.given = true, .level = {}, .prefill = {}, .decode = {.policy = "stem", .parameters = {}}},
       "",
       "attention.decode.policy"},
      {{.given = true,
        .level = {},
        .prefill = {.policy = {}, .parameters = {{"k", 1}}},
        .decode = {}},
       "",
       "attention.prefill.k"},
  };
  for (const auto& row : cases) {
    const auto choice = ResolveAttention(row.wish, row.header, "", kLevels, "off");
    ASSERT_FALSE(choice.ok()) << row.param;
    EXPECT_EQ(DescribeError(choice.status()).param, row.param) << choice.status();
    EXPECT_EQ(DescribeError(choice.status()).http_status, 400);
  }
}

TEST(AttentionMappingTest, WishesSurviveTheTypedMessages) {
  AttentionWish wish{.given = true,
                     .level = "light",
                     .prefill = {.policy = "stem", .parameters = {{"mu", 0.7}, {"beta", 0.2}}},
                     .decode = {.policy = "top_theta", .parameters = {{"k", 256}}}};
  v1::AttentionOptions options;
  ASSERT_TRUE(WishToProto(wish, options).ok());
  const AttentionWish read = WishFromProto(options);
  EXPECT_EQ(read.level, wish.level);
  EXPECT_EQ(read.prefill.policy, wish.prefill.policy);
  EXPECT_EQ(read.prefill.parameters, wish.prefill.parameters);
  EXPECT_EQ(read.decode.parameters, wish.decode.parameters);

  AttentionWish odd{
      .given = true, .level = {}, .prefill = {}, .decode = {.policy = "uniform", .parameters = {}}};
  EXPECT_FALSE(WishToProto(odd, options).ok());
}

}  // namespace
}  // namespace thresher
