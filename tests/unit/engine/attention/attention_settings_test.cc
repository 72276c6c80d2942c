#include "engine/attention/attention_settings.h"

#include <gtest/gtest.h>

#include <string>

namespace thresher {
namespace {

TEST(AttentionSettings, RefusesWhatIsOutOfRangeByTheFieldsOwnName) {
  const auto message = [](auto change) {
    AttentionSettings settings;
    change(settings);
    return std::string(settings.Validate().message());
  };
  EXPECT_EQ(message([](AttentionSettings&) {}), "");
  EXPECT_EQ(message([](AttentionSettings& s) { s.block_lists.forced.sink = -1; }),
            "block_lists.sink_blocks is -1; it must be 0 to 65536");
  EXPECT_EQ(message([](AttentionSettings& s) { s.block_lists.streaming.local = 0; }),
            "block_lists.streaming_local_blocks is 0; it must be 1 to 65536");
  EXPECT_EQ(message([](AttentionSettings& s) { s.block_lists.dense_layers = {-2}; }),
            "block_lists.dense_layers.layer is -2; it must be 0 or more");
  EXPECT_EQ(message([](AttentionSettings& s) { s.top_theta.layers = {{.layer = 3, .k = -1}}; }),
            "top_theta.layers.layer.k is -1; it must be 0 (dense) or more");
  EXPECT_EQ(message([](AttentionSettings& s) { s.block_lists.schedule.short_bias = -1; }),
            "block_lists.short_bias is -1; it must be 0 to 65536");
}

TEST(AttentionSettings, RefusesLayersThatTheModelDoesNotHave) {
  AttentionSettings settings;
  EXPECT_TRUE(settings.ValidateLayers(30).ok());
  EXPECT_TRUE(settings.ValidateLayers(1).ok());
  settings.top_theta.layers = {{.layer = 30, .k = 64}};
  EXPECT_EQ(
      settings.ValidateLayers(30).message(),
      "top_theta.layers.layer.layer is 30; it must be below 30, the model's number of layers");
  settings.top_theta.layers = {{.layer = 29, .k = 64}};
  settings.block_lists.dense_layers = {29, 31};
  EXPECT_EQ(
      settings.ValidateLayers(30).message(),
      "block_lists.dense_layers.layer is 31; it must be below 30, the model's number of layers");
}

}  // namespace
}  // namespace thresher
