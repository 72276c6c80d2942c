// Rows longer than what the threshold table speaks for, on the real engine with a tiny model: they
// are dense, and said to be.
#include <gtest/gtest.h>

#include <numeric>

#include "engine/engine.h"
#include "tests/support/tiny_engine.h"
#include "tests/support/tiny_thresholds.h"

namespace thresher::testing {
namespace {

// As in sparse_attention_test.cc.
constexpr float kF32Tolerance = 1e-3f;

// The table is of rows up to 256, and serves no longer ones.
TinyEngineOptions Options() {
  static const ThresholdContents table = TinyThresholds();
  TinyEngineOptions options{.model = "llama31"};
  options.attention.top_theta.layers = {};  // a model of two layers would be dense by default
  options.attention.top_theta.max_length_factor = 1;
  options.thresholds = &table;
  options.max_position = 512;
  return options;
}

GenerationRequest TopTheta(int prompt_length, int max_tokens) {
  GenerationRequest request = TinyRequest(99, prompt_length, max_tokens, 1);
  request.attention.level = "custom";
  request.attention.decode = {"top_theta", {{"k", 4}}};
  return request;
}

GenerationRequest Dense(GenerationRequest request) {
  request.attention = {};
  return request;
}

std::int64_t CountOf(const Generated& run, DenseFallback reason) {
  return run.usage.attention.dense_fallbacks[static_cast<std::size_t>(reason)];
}

TEST(LongRows, RowsPastTheTablesReachAreDenseToTheBitAndCounted) {
  TinyEngineOptions options = Options();
  const auto engine = CreateTinyEngine(options);
  options.attention.top_theta.max_length_factor = 0;
  const auto unlimited = CreateTinyEngine(options);
  ASSERT_TRUE(engine != nullptr && unlimited != nullptr);
  // The first row that is decoded has 257 keys.
  GenerationRequest request = TopTheta(256, 20);
  Generated dense = Generate(*engine, Dense(request)), sparse = Generate(*engine, request);
  ExpectSameBits(dense, sparse, "past the table");
  EXPECT_EQ(CountOf(sparse, DenseFallback::kLongRow), 19);
  EXPECT_EQ(CountOf(sparse, DenseFallback::kLongPrompt), 0);
  EXPECT_EQ(sparse.usage.attention.value_rows_read, sparse.usage.attention.value_rows);
  const Generated lifted = Generate(*unlimited, request);
  EXPECT_EQ(CountOf(lifted, DenseFallback::kLongRow), 0);
  EXPECT_LT(lifted.usage.attention.value_rows_read, lifted.usage.attention.value_rows * 9 / 10);
  EXPECT_NE(dense.logprobs[1].logprob, lifted.logprobs[1].logprob);
  // It has 256 keys: the last that is sparse.
  request = TopTheta(255, 20);
  dense = Generate(*engine, Dense(request));
  sparse = Generate(*engine, request);
  EXPECT_EQ(dense.logprobs[0].logprob, sparse.logprobs[0].logprob);
  EXPECT_NE(dense.logprobs[1].logprob, sparse.logprobs[1].logprob);
  EXPECT_EQ(CountOf(sparse, DenseFallback::kLongRow), 18);
  EXPECT_LT(sparse.usage.attention.value_rows_read, sparse.usage.attention.value_rows);
}

TEST(LongRows, APromptMayGrowPastTheTablesReachInAnyChunks) {
  TinyEngineOptions options = Options();
  const auto engine = CreateTinyEngine(options);
  options.max_prefill_chunk = 13;
  const auto chunked = CreateTinyEngine(options);
  ASSERT_TRUE(engine != nullptr && chunked != nullptr);
  GenerationRequest request = TopTheta(300, 20);
  request.attention.prefill = {"top_theta", {{"k", 8.0}}};
  const Generated whole = Generate(*engine, request);
  EXPECT_EQ(CountOf(whole, DenseFallback::kLongPrompt), 1);
  EXPECT_EQ(CountOf(whole, DenseFallback::kLongRow), 19);
  const Generated parts = Generate(*chunked, request);
  ExpectSameRun(whole, parts, kF32Tolerance, "chunked");
  EXPECT_EQ(CountOf(parts, DenseFallback::kLongPrompt), 1);
}

struct ShadowObserver final : EngineObserver {
  void OnStep(const StepReport& report) override { shadow.Add(report.shadow); }
  void OnInterToken(absl::Duration) override {}
  void OnRequestEnd(const RequestReport&) override {}
  ShadowReport shadow;
};

TEST(LongRows, ShadowErrorsAreOfRowsWithinTheTablesReachAlone) {
  TinyEngineOptions options = Options();
  options.attention.shadow_interval = 1;
  ShadowObserver observer;
  {
    const auto engine = CreateTinyEngine(options, &observer);
    ASSERT_NE(engine, nullptr);
    // Three rows are sparse.
    Generate(*engine, TopTheta(253, 11));
  }
  EXPECT_GE(observer.shadow.num_tokens, 10);
  const auto& errors = observer.shadow.output_error_buckets;
  EXPECT_EQ(std::accumulate(errors.begin(), errors.end(), std::int64_t{0}), 3 * 2);
  EXPECT_EQ(errors[0], 0);
}

}  // namespace
}  // namespace thresher::testing
