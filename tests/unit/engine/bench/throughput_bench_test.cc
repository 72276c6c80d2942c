// Random requests through the real engine on the CPU, with a model that needs no file.
#include "engine/bench/throughput_bench.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace thresher {
namespace {

ThroughputBenchOptions TinyOptions() {
  ThroughputBenchOptions options;
  options.engine.model_path = "synthetic:tiny";
  options.engine.backend.num_threads = 1;
  options.engine.kv_cache_tokens = 512;
  options.requests = 5;
  options.prompt_tokens = 20;
  options.output_tokens = 6;
  options.concurrency = 2;
  return options;
}

TEST(ThroughputBench, ServesEveryRequestToItsEnd) {
  const ThroughputBenchOptions options = TinyOptions();
  const absl::StatusOr<ThroughputBenchReport> report = RunThroughputBench(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->disagreement, "");
  EXPECT_GT(report->first_token_ms_p50, 0);
  EXPECT_LE(report->gap_ms_p50, report->gap_ms_p99);
  EXPECT_NEAR(report->output_tokens_per_second * report->seconds, 5 * 6, 1e-6);
  EXPECT_NEAR(report->tokens_per_second * report->seconds, 5 * (6 + 20), 1e-6);
  const nlohmann::json line =
      nlohmann::json::parse(ThroughputBenchLine(options, *report, "c", "thresher bench offline"));
  EXPECT_EQ(line["case"], "requests_20_6_at_2");
  EXPECT_EQ(line["requests"], 5);
  EXPECT_TRUE(line["agreement"]);
}

TEST(ThroughputBench, RefusesByTheFlagsName) {
  ThroughputBenchOptions bad = TinyOptions();
  bad.concurrency = 0;
  EXPECT_EQ(bad.Validate().message(), "--concurrency is 0; it must be from 1 to 4096");
  bad = TinyOptions();
  bad.requests = -1;
  EXPECT_EQ(RunThroughputBench(bad).status().message(), "--requests is -1; it must be at least 1");
  bad = TinyOptions();
  bad.output_tokens = 600;
  EXPECT_NE(RunThroughputBench(bad).status().message().find("--max-model-len is 620"),
            std::string::npos);
}

}  // namespace
}  // namespace thresher
