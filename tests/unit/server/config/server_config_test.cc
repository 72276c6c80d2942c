#include "server/config/server_config.h"

#include <gtest/gtest.h>

#include <functional>

#include "server/config/defaults.h"

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
  ASSERT_EQ(config->levels.size(), 1u);
  EXPECT_EQ(config->levels[0].decode.policy, "dense");
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
      {"--kv-cache-tokens", [](auto& c) { c.set_kv_cache_tokens(0); }},
      {"--max-json-depth", [](auto& c) { c.set_max_json_depth(0); }},
      {"--max-held-body-bytes", [](auto& c) { c.set_max_held_body_bytes(c.max_body_bytes() - 1); }},
      {"--max-grpc-calls", [](auto& c) { c.set_max_grpc_calls(0); }},
      {"--default-level", [](auto& c) { c.set_default_level("balanced"); }},
      {"--threshold-table", [](auto& c) { c.set_threshold_table("t"); }},
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
  EXPECT_EQ(config->levels.size(), 2u);

  level.mutable_decode()->mutable_top_theta()->set_k(64);
  const absl::StatusOr<ServerConfig> absent = ServerConfigFrom(flags);
  ASSERT_FALSE(absent.ok());
  EXPECT_NE(std::string(absent.status().message()).find("attention.decode.policy"),
            std::string::npos);

  flags.clear_level();
  flags.add_level()->set_name("off");
  EXPECT_FALSE(ServerConfigFrom(flags).ok());
}

}  // namespace
}  // namespace thresher
