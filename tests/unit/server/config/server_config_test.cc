#include "server/config/server_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/config/builtin_levels.h"
#include "server/config/defaults.h"
#include "server/requests/attention_mapping.h"

namespace thresher {
namespace {

v1::ServeConfig Valid() {
  v1::ServeConfig config = DefaultServeConfig();
  config.set_model("m.gguf");
  return config;
}

TEST(ServerConfigTest, DefaultsAreValid) {
  const absl::StatusOr<ServerConfig> config = ServerConfigFrom(Valid());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->engine.model_path, "m.gguf");
  EXPECT_EQ(config->default_level, "off");
  ASSERT_EQ(config->levels.size(), 4u);
  EXPECT_EQ(config->levels[0].decode.policy, "dense");
  EXPECT_EQ(LevelNames(config->levels), "off, light, balanced, aggressive");
}

TEST(ServerConfigTest, BatchInvarianceReachesTheEngine) {
  v1::ServeConfig flags = Valid();
  EXPECT_FALSE(ServerConfigFrom(flags)->engine.backend.batch_invariant);
  flags.set_batch_invariant(true);
  EXPECT_TRUE(ServerConfigFrom(flags)->engine.backend.batch_invariant);
}

TEST(ServerConfigTest, NamesTheBadFlag) {
  const struct {
    const char* part;  // of the message
    std::function<void(v1::ServeConfig&)> change;
  } cases[] = {
      {"--model", [](auto& c) { c.clear_model(); }},
      {"--http-port", [](auto& c) { c.set_http_port(65536); }},
      {"--cpu-isa", [](auto& c) { c.set_cpu_isa("sse"); }},
      {"--grpc-port", [](auto& c) { c.set_grpc_port(-1); }},
      {"--device", [](auto& c) { c.set_device("tpu"); }},
      {"--kv-cache-dtype", [](auto& c) { c.set_kv_cache_dtype("fp8"); }},
      {"--admission", [](auto& c) { c.set_admission("never"); }},
      {"--tensor-parallel", [](auto& c) { c.set_tensor_parallel(0); }},
      {"--kv-cache-tokens", [](auto& c) { c.set_kv_cache_tokens(-1); }},
      {"--kv-memory-fraction is 1.5; it must be above 0 and at most 1",
       [](auto& c) { c.set_kv_memory_fraction(1.5); }},
      {"--kv-memory-fraction is 0;", [](auto& c) { c.set_kv_memory_fraction(0); }},
      {"--kv-memory-fraction is nan;", [](auto& c) { c.set_kv_memory_fraction(NAN); }},
      {"--max-json-depth", [](auto& c) { c.set_max_json_depth(0); }},
      {"--max-held-body-bytes", [](auto& c) { c.set_max_held_body_bytes(c.max_body_bytes() - 1); }},
      {"--max-grpc-calls", [](auto& c) { c.set_max_grpc_calls(0); }},
      {"--default-level", [](auto& c) { c.set_default_level("extreme"); }},
      {"--shadow-interval", [](auto& c) { c.set_shadow_interval(-1); }},
      {"block_lists.stride", [](auto& c) { c.mutable_block_lists()->set_stride(7); }},
      {"top_theta.gamma", [](auto& c) { c.mutable_top_theta()->set_gamma(2); }},
      {"top_theta.max_length_factor",
       [](auto& c) { c.mutable_top_theta()->set_max_length_factor(-1); }},
      {"--host", [](auto& c) { c.clear_host(); }},
  };
  for (const auto& row : cases) {
    v1::ServeConfig flags = Valid();
    row.change(flags);
    const absl::StatusOr<ServerConfig> config = ServerConfigFrom(flags);
    ASSERT_FALSE(config.ok()) << row.part;
    EXPECT_NE(std::string(config.status().message()).find(row.part), std::string::npos)
        << config.status();
  }
}

TEST(ServerConfigTest, OperatorsAddLevelsOfPoliciesThatExist) {
  v1::ServeConfig flags = Valid();
  v1::AttentionLevel& level = *flags.add_level();
  level.set_name("exact");
  level.mutable_prefill()->mutable_dense();
  flags.set_default_level("exact");
  const absl::StatusOr<ServerConfig> config = ServerConfigFrom(flags);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(LevelNames(config->levels), "off, light, balanced, aggressive, exact");

  level.mutable_decode()->mutable_top_theta()->set_k(0);
  const absl::StatusOr<ServerConfig> bad = ServerConfigFrom(flags);
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(std::string(bad.status().message()).find("attention.decode.k"), std::string::npos);

  // A built-in row may be another.
  level.set_name("light");
  level.mutable_decode()->mutable_top_theta()->set_k(64);
  flags.set_default_level("off");
  const absl::StatusOr<ServerConfig> replaced = ServerConfigFrom(flags);
  ASSERT_TRUE(replaced.ok()) << replaced.status();
  EXPECT_EQ(LevelNames(replaced->levels), "off, light, balanced, aggressive");
  EXPECT_EQ(replaced->levels[1].prefill.policy, "dense");
  EXPECT_EQ(replaced->levels[1].decode.parameters[0].second, 64);
  *flags.add_level() = level;
  EXPECT_FALSE(ServerConfigFrom(flags).ok());

  flags.clear_level();
  flags.add_level()->set_name("off");
  EXPECT_FALSE(ServerConfigFrom(flags).ok());
}

std::string ToString(const PolicyChoice& choice) {
  std::string text = choice.policy;
  for (const auto& [name, value] : choice.parameters) {
    text += absl::StrCat(" ", name, "=", value);
  }
  return text;
}

// What the levels cost and save was measured at these numbers: tests/golden/evaluation.
TEST(ServerConfigTest, BuiltInLevelsAreThoseThatWereMeasured) {
  std::string levels;
  for (const AttentionChoice& level : BuiltInLevels()) {
    levels += absl::StrCat(level.level, ": ", ToString(level.prefill), ", ", ToString(level.decode),
                           "\n");
  }
  EXPECT_EQ(levels,
            "off: dense, dense\n"
            "light: dense, top_theta k=768\n"
            "balanced: dense, top_theta k=320\n"
            "aggressive: stem mu=0.7 beta=0.2, top_theta k=128\n");
}

TEST(ServerConfigTest, AttentionSettingsReachTheEngine) {
  v1::ServeConfig flags = Valid();
  flags.set_threshold_table("thresholds");
  flags.set_gemm_choices("choices");
  flags.set_shadow_interval(100);
  v1::TopThetaConfig& top_theta = *flags.mutable_top_theta();
  top_theta.set_placement(v1::TopThetaConfig::POST);
  top_theta.set_denominator(v1::TopThetaConfig::EXACT);
  top_theta.set_value_mean(v1::TopThetaConfig::ALL);
  top_theta.set_promotes(false);
  top_theta.set_max_length_factor(0);
  v1::TopThetaConfig::Layer& layer = *top_theta.mutable_layers()->add_layer();
  layer.set_layer(3);
  layer.set_k(512);
  v1::BlockListConfig& lists = *flags.mutable_block_lists();
  lists.set_form(v1::BlockListConfig::PAPER);
  lists.set_value_term(v1::BlockListConfig::RAW);
  lists.set_cache_match(v1::BlockListConfig::LOOSE);
  lists.set_short_bias(7);
  lists.set_last_dense_blocks(1);
  lists.set_sink_blocks(2);
  lists.set_forced_in_budget(true);
  lists.mutable_dense_layers();
  const absl::StatusOr<ServerConfig> config = ServerConfigFrom(flags);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->engine.threshold_table, "thresholds");
  EXPECT_EQ(config->engine.backend.gemm_choices_path, "choices");
  const AttentionSettings& settings = config->engine.attention;
  EXPECT_EQ(settings.shadow_interval, 100);
  EXPECT_EQ(settings.top_theta.placement, ThresholdPlacement::kPost);
  EXPECT_EQ(settings.top_theta.value_mean, ValueMean::kAll);
  EXPECT_FALSE(settings.top_theta.promotes);
  EXPECT_EQ(settings.top_theta.max_length_factor, 0);
  ASSERT_EQ(settings.top_theta.layers.size(), 1u);
  EXPECT_EQ(settings.top_theta.layers[0].layer, 3);
  EXPECT_EQ(settings.top_theta.layers[0].k, 512);
  EXPECT_EQ(settings.block_lists.schedule.form, BudgetForm::kPaper);
  EXPECT_EQ(settings.block_lists.schedule.short_bias, 7);
  EXPECT_EQ(settings.block_lists.schedule.long_bias, 30);
  EXPECT_EQ(settings.block_lists.schedule.last_dense_blocks, 1);
  EXPECT_EQ(settings.block_lists.value_term, ValueTerm::kRaw);
  EXPECT_EQ(settings.block_lists.cache_match, CacheMatch::kLoose);
  EXPECT_EQ(settings.block_lists.forced.sink, 2);
  EXPECT_EQ(settings.block_lists.forced.local, 4);
  EXPECT_TRUE(settings.block_lists.forced.in_budget);
  EXPECT_TRUE(settings.block_lists.dense_layers.empty());
}

}  // namespace
}  // namespace thresher
