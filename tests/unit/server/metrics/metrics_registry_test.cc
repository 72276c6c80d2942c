#include "server/metrics/metrics_registry.h"

#include <gtest/gtest.h>

namespace thresher {
namespace {

bool Has(const std::string& text, const std::string& line) {
  return text.find(line + "\n") != std::string::npos;
}

TEST(MetricsRegistryTest, EverySeriesIsThereBeforeTheFirstRequest) {
  const std::string text = MetricsRegistry({}).Text();
  for (const char* line :
       {"thresher_requests_running 0", "thresher_requests_waiting 0",
        "thresher_requests_total{outcome=\"aborted\"} 0",
        "thresher_requests_total{outcome=\"rejected\"} 0", "thresher_preemptions_total 0",
        "thresher_kv_blocks{state=\"free\"} 0", "thresher_prefix_cache_hit_tokens_total 0",
        "thresher_inter_token_seconds_count 0", "thresher_queue_seconds_count 0",
        "thresher_step_tokens_count 0"}) {
    EXPECT_TRUE(Has(text, line)) << line;
  }
  EXPECT_EQ(text.find("vllm:"), std::string::npos);
}

TEST(MetricsRegistryTest, StepsSetGaugesAndAddWhatIsNew) {
  MetricsRegistry metrics({});
  StepReport report;
  report.step_time = absl::Milliseconds(4);
  report.num_prefill_tokens = 100;
  report.num_decode_tokens = 3;
  report.num_running = 4;
  report.blocks_free = 10;
  report.blocks_owned = 5;
  report.num_preemptions = 2;
  report.prefix_hit_tokens = 64;
  metrics.OnStep(report);
  metrics.OnStep(report);
  const std::string text = metrics.Text();
  EXPECT_TRUE(Has(text, "thresher_requests_running 4"));
  EXPECT_TRUE(Has(text, "thresher_kv_blocks{state=\"owned\"} 5"));
  EXPECT_TRUE(Has(text, "thresher_preemptions_total 2"));
  EXPECT_TRUE(Has(text, "thresher_prefix_cache_hit_tokens_total 64"));
  EXPECT_TRUE(Has(text, "thresher_step_tokens_sum 206"));
}

TEST(MetricsRegistryTest, BucketsResolveAThreeMillisecondTokenAndAFiveMillisecondQueue) {
  MetricsRegistry metrics({});
  metrics.OnInterToken(absl::Microseconds(2900));
  metrics.OnInterToken(absl::Microseconds(3400));
  RequestReport report;
  report.queue_time = absl::Microseconds(4900);
  metrics.OnRequestEnd(report);
  const std::string text = metrics.Text();
  EXPECT_TRUE(Has(text, "thresher_inter_token_seconds_bucket{le=\"0.0025\"} 0"));
  EXPECT_TRUE(Has(text, "thresher_inter_token_seconds_bucket{le=\"0.003\"} 1"));
  EXPECT_TRUE(Has(text, "thresher_inter_token_seconds_bucket{le=\"0.0035\"} 2"));
  EXPECT_TRUE(Has(text, "thresher_queue_seconds_bucket{le=\"0.004\"} 0"));
  EXPECT_TRUE(Has(text, "thresher_queue_seconds_bucket{le=\"0.005\"} 1"));
}

TEST(MetricsRegistryTest, RequestsCountByOutcome) {
  MetricsRegistry metrics({.model_name = "m", .vllm_names = true});
  RequestReport report;
  report.outcome = RequestOutcome::kLength;
  report.prompt_tokens = 7;
  report.generated_tokens = 9;
  report.time_to_first_token = absl::Milliseconds(12);
  metrics.OnRequestEnd(report);
  metrics.CountRefused();
  const std::string text = metrics.Text();
  EXPECT_TRUE(Has(text, "thresher_requests_total{outcome=\"length\"} 1"));
  EXPECT_TRUE(Has(text, "thresher_requests_total{outcome=\"rejected\"} 1"));
  EXPECT_TRUE(Has(text, "thresher_prompt_tokens_total 7"));
  EXPECT_TRUE(Has(text, "thresher_generated_tokens_total 9"));
  EXPECT_TRUE(Has(text, "thresher_request_seconds_count 1"));
  EXPECT_TRUE(Has(text, "vllm:generation_tokens_total{engine=\"0\",model_name=\"m\"} 9"));
  EXPECT_TRUE(Has(text,
                  "vllm:request_success_total{engine=\"0\",finished_reason=\"length\","
                  "model_name=\"m\"} 1"));
}

}  // namespace
}  // namespace thresher
