#include "server/metrics/metrics_registry.h"

#include <gtest/gtest.h>

#include "tests/unit/server/server_fixture.h"

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

TEST(MetricsRegistryTest, TokensMoveWithEveryStep) {
  MetricsRegistry metrics({.model_name = "m", .vllm_names = true});
  StepReport report;
  report.prompt_tokens = 7;
  report.generated_tokens = 2;
  metrics.OnStep(report);
  report.generated_tokens = 9;
  metrics.OnStep(report);
  RequestReport ended;
  ended.outcome = RequestOutcome::kStop;
  ended.prompt_tokens = 7;
  ended.generated_tokens = 9;
  metrics.OnRequestEnd(ended);
  const std::string text = metrics.Text();
  EXPECT_TRUE(Has(text, "thresher_prompt_tokens_total 7"));
  EXPECT_TRUE(Has(text, "thresher_generated_tokens_total 9"));
  EXPECT_TRUE(Has(text, "vllm:generation_tokens_total{engine=\"0\",model_name=\"m\"} 9"));
}

TEST(MetricsRegistryTest, AnEngineReportsItsCacheAtStartAndTokensBeforeARequestEnds) {
  ServerFixture server;
  const absl::Time limit = absl::Now() + absl::Seconds(10);
  while (!Has(server.metrics->Text(), "thresher_kv_blocks{state=\"free\"} 64")) {
    ASSERT_LT(absl::Now(), limit);
  }
  server.runner->Hold();
  GenerationRequest request;
  request.prompt = {'a', 'b', 'c'};
  request.n = 2;
  auto handle = server.engine->Submit(request, nullptr, 0);
  ASSERT_TRUE(handle.ok()) << handle.status();
  server.runner->AwaitHeldWait();
  EXPECT_TRUE(Has(server.metrics->Text(), "thresher_generated_tokens_total 0"));
  server.runner->AllowSteps(4);
  server.runner->AwaitHeldWait();
  const std::string text = server.metrics->Text();
  EXPECT_TRUE(Has(text, "thresher_prompt_tokens_total 3"));
  EXPECT_FALSE(Has(text, "thresher_generated_tokens_total 0"));
  EXPECT_TRUE(Has(text, "thresher_request_seconds_count 0"));
  server.runner->Release();
  std::vector<TokenEvent> events;
  while ((*handle)->Poll(events)) (*handle)->Wait(absl::Seconds(10));
  EXPECT_TRUE(Has(server.metrics->Text(), "thresher_prompt_tokens_total 3"));
  EXPECT_TRUE(Has(server.metrics->Text(), "thresher_generated_tokens_total 28"));
}

TEST(MetricsRegistryTest, BoundsReadAsTheyWereWritten) {
  const std::string text = MetricsRegistry({.model_name = "a\"b\\c", .vllm_names = true}).Text();
  for (const char* bound : {"0.0005", "0.009", "0.003", "0.0075", "2.5", "10", "+Inf"}) {
    EXPECT_NE(text.find(std::string("le=\"") + bound + "\"}"), std::string::npos) << bound;
  }
  EXPECT_EQ(text.find("99999"), std::string::npos);
  EXPECT_EQ(text.find("00001"), std::string::npos);
  EXPECT_TRUE(Has(text, "# TYPE thresher_step_seconds histogram"));
  EXPECT_TRUE(Has(text, "# HELP thresher_step_seconds Time of one engine step."));
  EXPECT_TRUE(Has(text, "# TYPE thresher_kv_blocks gauge"));
  EXPECT_TRUE(Has(text, "# TYPE thresher_preemptions_total counter"));
  EXPECT_NE(text.find("model_name=\"a\\\"b\\\\c\""), std::string::npos);
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
  report.time_to_first_token = absl::Milliseconds(12);
  metrics.OnRequestEnd(report);
  metrics.CountRefused();
  const std::string text = metrics.Text();
  EXPECT_TRUE(Has(text, "thresher_requests_total{outcome=\"length\"} 1"));
  EXPECT_TRUE(Has(text, "thresher_requests_total{outcome=\"rejected\"} 1"));
  EXPECT_TRUE(Has(text, "thresher_request_seconds_count 1"));
  EXPECT_TRUE(Has(text,
                  "vllm:request_success_total{engine=\"0\",finished_reason=\"length\","
                  "model_name=\"m\"} 1"));
}

}  // namespace
}  // namespace thresher
