// Requests under sparse policies on the real engine with a tiny model: which cached blocks they
// share, and that whatever surrounds a request, its run stays its solo run.
#include <gtest/gtest.h>

#include <numeric>

#include "engine/engine.h"
#include "tests/support/fakes/fake_engine.h"
#include "tests/support/tiny_engine.h"
#include "tests/support/tiny_thresholds.h"

namespace thresher::testing {
namespace {

// As in engine_test.cc. A score within rounding of its threshold may be kept in one order of
// summation and dropped in another: it then moves an output by the difference that its value makes
// beside the mean of the dropped ones, a share of less than 2 / k of a row. The thresholds of the
// tests leave no such score in the exact comparisons below.
constexpr float kF32Tolerance = 1e-3f;

const ThresholdContents& Table() {
  static const ThresholdContents table = TinyThresholds();
  return table;
}

TinyEngineOptions Options() {
  TinyEngineOptions options{.model = "llama31"};
  // A model of two layers would be dense by default.
  options.attention.top_theta.layers = {};
  options.attention.block_lists.dense_layers = {};
  options.thresholds = &Table();
  return options;
}

GenerationRequest TopTheta(GenerationRequest request, int k) {
  request.attention.level = "custom";
  request.attention.decode = {"top_theta", {{"k", k}}};
  return request;
}

// A prompt that goes on where a first turn ended.
GenerationRequest SecondTurn(const GenerationRequest& first, const Generated& answer,
                             int new_tokens) {
  GenerationRequest second = first;
  second.prompt.insert(second.prompt.end(), answer.tokens.begin(), answer.tokens.end());
  for (int i = 0; i < new_tokens; ++i) second.prompt.push_back(3 + (i * 7) % 90);
  return second;
}

TEST(SparseAttention, ADenseSecondTurnNeverReadsWhatTopThetaDecoded) {
  TinyEngineOptions options = Options();
  const auto cold = CreateTinyEngine(options);
  options.prefix_cache = true;
  const auto warm = CreateTinyEngine(options);
  ASSERT_TRUE(cold != nullptr && warm != nullptr);
  const GenerationRequest first = TopTheta(TinyRequest(99, 40, 60, 1), 4);
  const Generated answer = Generate(*warm, first);
  ASSERT_EQ(answer.tokens.size(), 60u);
  GenerationRequest second = SecondTurn(first, answer, 10);
  second.attention = {};
  const Generated dense = Generate(*warm, second);
  // The dense prompt's two whole blocks alone: the third holds rows that were decoded.
  EXPECT_EQ(dense.usage.cached_tokens, 32);
  ExpectSameRun(Generate(*cold, second), dense, kF32Tolerance, "dense second turn");
}

TEST(SparseAttention, ATopThetaSecondTurnReadsItsOwnBlocks) {
  TinyEngineOptions options = Options();
  options.prefix_cache = true;
  const auto engine = CreateTinyEngine(options);
  ASSERT_NE(engine, nullptr);
  const GenerationRequest first = TopTheta(TinyRequest(99, 40, 60, 1), 4);
  const Generated answer = Generate(*engine, first);
  ASSERT_EQ(answer.tokens.size(), 60u);
  // The last token was drawn and never computed: 99 tokens are cached, six blocks of them whole.
  EXPECT_EQ(Generate(*engine, SecondTurn(first, answer, 10)).usage.cached_tokens, 96);
  GenerationRequest other = SecondTurn(first, answer, 12);
  other.attention.decode.parameters[0].second = 5;
  EXPECT_EQ(Generate(*engine, other).usage.cached_tokens, 32);
}

TEST(SparseAttention, TopThetaReadsFewerRowsAndSaysSo) {
  const auto engine = CreateTinyEngine(Options());
  ASSERT_NE(engine, nullptr);
  const GenerationRequest request = TinyRequest(99, 100, 20, 1);
  const Generated dense = Generate(*engine, request);
  const Generated sparse = Generate(*engine, TopTheta(request, 4));
  ASSERT_EQ(sparse.tokens.size(), 20u);
  EXPECT_NE(dense.logprobs[5].logprob, sparse.logprobs[5].logprob);
  // 19 rows are decoded, over 101 to 119 keys, on two layers of four KV heads.
  constexpr std::int64_t kRows = 19 * 110 * 2 * 4;
  EXPECT_EQ(dense.usage.attention.value_rows, kRows);
  EXPECT_EQ(dense.usage.attention.value_rows_read, kRows);
  EXPECT_EQ(dense.usage.attention.key_rows_read, kRows);
  EXPECT_EQ(dense.usage.attention.kv_bytes_dense, 2 * kRows * 8 * 4);
  EXPECT_FALSE(dense.usage.k.has_value());
  EXPECT_EQ(sparse.usage.attention.value_rows, kRows);
  EXPECT_EQ(sparse.usage.attention.key_rows_read, kRows);
  EXPECT_LT(sparse.usage.attention.value_rows_read, kRows * 9 / 10);
  EXPECT_GT(sparse.usage.attention.value_rows_read, 0);
  // Twelve rows have seven blocks of keys and seven have eight; the sum of a block's values is a
  // row.
  constexpr std::int64_t kSums = (12 * 7 + 7 * 8) * 2 * 4;
  EXPECT_EQ(sparse.usage.attention.kv_bytes_read,
            (kRows + sparse.usage.attention.value_rows_read + kSums) * 8 * 4);
  EXPECT_EQ(sparse.usage.k, 4);
  // One block of 128 tokens, in two layers of eight heads.
  EXPECT_EQ(sparse.usage.attention.blocks, 16);
  EXPECT_EQ(sparse.usage.attention.blocks_selected, 16);
}

TEST(SparseAttention, PoliciesThatJudgeThresholdsAreForEvaluationsAlone) {
  TinyEngineOptions options = Options();
  const auto engine = CreateTinyEngine(options);
  options.attention.allows_evaluation_policies = true;
  const auto evaluation = CreateTinyEngine(options);
  ASSERT_TRUE(engine != nullptr && evaluation != nullptr);
  GenerationRequest request = TinyRequest(99, 100, 20, 1);
  const Generated dense = Generate(*evaluation, request);
  request.attention.level = "custom";
  for (const char* policy : {"top_k", "quest"}) {
    request.attention.decode = {policy, {{"k", 16}}};
    EXPECT_EQ(engine->Submit(request, nullptr, 0).status().code(),
              absl::StatusCode::kInvalidArgument);
    const Generated ranked = Generate(*evaluation, request);
    ASSERT_EQ(ranked.tokens.size(), 20u) << policy;
    EXPECT_NE(dense.logprobs[5].logprob, ranked.logprobs[5].logprob) << policy;
    EXPECT_EQ(ranked.usage.k, 16);
    // 19 decoded rows on two layers of four KV heads, each the union over two heads.
    constexpr std::int64_t kLeast = 19 * 2 * 4 * 16;
    if (policy == std::string("top_k")) {
      EXPECT_GE(ranked.usage.attention.value_rows_read, kLeast);
      EXPECT_LE(ranked.usage.attention.value_rows_read, 2 * kLeast);
    } else {  // one page for both heads, which may be the last, incomplete one
      EXPECT_LE(ranked.usage.attention.value_rows_read, kLeast);
      EXPECT_GT(ranked.usage.attention.value_rows_read, kLeast / 2);
    }
    // Rows within k are dense to the bit.
    request.attention.decode.parameters[0].second = 256;
    ExpectSameBits(dense, Generate(*evaluation, request), policy);
  }
}

TEST(SparseAttention, RowsWithinKAreDenseToTheBitAndCounted) {
  const auto engine = CreateTinyEngine(Options());
  ASSERT_NE(engine, nullptr);
  const GenerationRequest request = TinyRequest(99, 20, 30, 1);
  const Generated dense = Generate(*engine, request);
  const Generated sparse = Generate(*engine, TopTheta(request, 64));
  ExpectSameBits(dense, sparse, "within k");
  EXPECT_EQ(
      sparse.usage.attention.dense_fallbacks[static_cast<std::size_t>(DenseFallback::kShortRow)],
      29);
  EXPECT_EQ(sparse.usage.attention.value_rows_read, sparse.usage.attention.value_rows);
}

TEST(SparseAttention, PreemptionChangesNothing) {
  TinyEngineOptions options = Options();
  options.max_model_len = 120;
  const auto alone = CreateTinyEngine(options);
  CountingObserver observer;
  options.num_blocks = 10;
  options.prefix_cache = true;
  const auto tight = CreateTinyEngine(options, &observer);
  ASSERT_TRUE(alone != nullptr && tight != nullptr);
  std::vector<GenerationRequest> requests;
  std::vector<std::unique_ptr<RequestHandle>> handles;
  for (int i = 0; i < 5; ++i) {
    requests.push_back(TopTheta(TinyRequest(99, 20 + i, 0, i), 4 + i));
    requests.back().max_tokens = std::nullopt;
    handles.push_back(MustSubmit(*tight, requests.back()));
  }
  for (int i = 0; i < 5; ++i) {
    const Generated solo = Generate(*alone, requests[i]);
    EXPECT_EQ(solo.tokens.size(), 100u - i);
    ExpectSameRun(solo, Collect(*handles[i]), kF32Tolerance, "request " + std::to_string(i));
  }
  EXPECT_GT(observer.num_preemptions.load(), 0);
}

// Dense, and Top-θ of several k, in decode or in both phases, by turns.
GenerationRequest Mixed(int index) {
  GenerationRequest request = TinyRequest(99, 30 + (index * 37) % 170, 16, index);
  if (index % 4 == 0) return request;
  request = TopTheta(request, 4 + index % 13);
  if (index % 4 == 3) request.attention.prefill = {"top_theta", {{"k", 8.0}}};
  return request;
}

TEST(SparseAttention, AMixedCrowdAndChunksChangeNothing) {
  TinyEngineOptions options = Options();
  const auto alone = CreateTinyEngine(options);
  const auto crowd = CreateTinyEngine(options);
  options.max_prefill_chunk = 13;
  const auto chunked = CreateTinyEngine(options);
  ASSERT_TRUE(alone != nullptr && crowd != nullptr && chunked != nullptr);
  std::vector<std::unique_ptr<RequestHandle>> handles, chunked_handles;
  for (int i = 0; i < 24; ++i) {
    handles.push_back(MustSubmit(*crowd, Mixed(i)));
    if (i % 3 == 0) chunked_handles.push_back(MustSubmit(*chunked, Mixed(i)));
  }
  for (int i = 0; i < 24; ++i) {
    const Generated solo = Generate(*alone, Mixed(i));
    const Generated crowded = Collect(*handles[static_cast<std::size_t>(i)]);
    ExpectSameRun(solo, crowded, kF32Tolerance, "crowd " + std::to_string(i));
    EXPECT_EQ(solo.usage.attention.value_rows, crowded.usage.attention.value_rows);
    if (i % 3 != 0) continue;
    ExpectSameRun(solo, Collect(*chunked_handles[static_cast<std::size_t>(i / 3)]), kF32Tolerance,
                  "chunked " + std::to_string(i));
  }
}

TEST(SparseAttention, RanksChangeNothing) {
  const auto one = CreateTinyEngine(Options());
  ASSERT_NE(one, nullptr);
  for (const int ranks : {2, 4}) {
    TinyEngineOptions options = Options();
    options.num_ranks = ranks;
    const auto many = CreateTinyEngine(options);
    ASSERT_NE(many, nullptr);
    for (int i = 0; i < 8; ++i) {
      const Generated solo = Generate(*one, Mixed(i));
      const Generated shared = Generate(*many, Mixed(i));
      const std::string what = std::to_string(ranks) + " ranks, request " + std::to_string(i);
      ExpectSameRun(solo, shared, kF32Tolerance, what);
      EXPECT_EQ(solo.usage.attention.value_rows, shared.usage.attention.value_rows) << what;
      EXPECT_EQ(solo.usage.attention.blocks, shared.usage.attention.blocks) << what;
    }
  }
}

TEST(SparseAttention, BatchInvariantRunsKeepTheirBits) {
  TinyEngineOptions options = Options();
  options.batch_invariant = true;
  const auto alone = CreateTinyEngine(options);
  const auto crowd = CreateTinyEngine(options);
  ASSERT_TRUE(alone != nullptr && crowd != nullptr);
  std::vector<std::unique_ptr<RequestHandle>> handles;
  for (int i = 0; i < 8; ++i) handles.push_back(MustSubmit(*crowd, Mixed(i)));
  for (int i = 0; i < 8; ++i) {
    ExpectSameBits(Generate(*alone, Mixed(i)), Collect(*handles[static_cast<std::size_t>(i)]),
                   "request " + std::to_string(i));
  }
}

// Adds up what steps report.
struct AttentionObserver final : EngineObserver {
  void OnStep(const StepReport& report) override {
    shadow.Add(report.shadow);
    for (std::size_t i = 0; i < kNumRowLengths; ++i) fidelity[i].Add(report.fidelity[i]);
    for (const AttentionSeries& series : report.attention) {
      if (series.policy == "top_theta") top_theta.Add(series.counts);
    }
  }
  void OnInterToken(absl::Duration) override {}
  void OnRequestEnd(const RequestReport&) override {}

  ShadowReport shadow;
  std::array<ThresholdFidelity, kNumRowLengths> fidelity = {};
  AttentionCounts top_theta;
};

template <typename Buckets>
std::int64_t Sum(const Buckets& buckets) {
  return std::accumulate(buckets.begin(), buckets.end(), std::int64_t{0});
}

TEST(SparseAttention, ShadowStepsCompareAndChangeNothing) {
  const auto plain = CreateTinyEngine(Options());
  for (const int ranks : {1, 2}) {
    TinyEngineOptions options = Options();
    options.num_ranks = ranks;
    options.attention.shadow_interval = 3;
    AttentionObserver observer;
    const GenerationRequest request = TopTheta(TinyRequest(99, 100, 31, 1), 4);
    const GenerationRequest neighbour = TinyRequest(99, 70, 40, 2);
    {
      const auto engine = CreateTinyEngine(options, &observer);
      ASSERT_TRUE(plain != nullptr && engine != nullptr);
      const auto other = MustSubmit(*engine, neighbour);
      const Generated shadowed = Generate(*engine, request);
      const Generated dense = Collect(*other);
      if (ranks == 1) {
        ExpectSameBits(Generate(*plain, request), shadowed, "shadowed");
      } else {
        ExpectSameRun(Generate(*plain, request), shadowed, kF32Tolerance, "shadowed, two ranks");
      }
      ExpectSameRun(Generate(*plain, neighbour), dense, kF32Tolerance, "its neighbour");
    }
    // 30 sparse steps; one more was launched before the request's end was known.
    EXPECT_GE(observer.shadow.num_tokens, 10);
    EXPECT_LE(observer.shadow.num_tokens, 11);
    EXPECT_LE(observer.shadow.num_token_mismatches, observer.shadow.num_tokens);
    EXPECT_EQ(Sum(observer.shadow.output_error_buckets), observer.shadow.num_tokens * 2 * ranks);
    EXPECT_GT(observer.shadow.output_error_sum, 0);
  }
}

// A layer that is dense whatever the request asks for has no error, and must not thin out those of
// the others.
TEST(SparseAttention, ShadowErrorsAreOfThresholdedLayersAlone) {
  TinyEngineOptions options = Options();
  options.attention.shadow_interval = 1;
  options.attention.top_theta.layers = {{0, 0}};
  AttentionObserver observer;
  {
    const auto engine = CreateTinyEngine(options, &observer);
    ASSERT_NE(engine, nullptr);
    Generate(*engine, TopTheta(TinyRequest(99, 100, 11, 1), 4));
  }
  EXPECT_EQ(Sum(observer.shadow.output_error_buckets), observer.shadow.num_tokens);
  EXPECT_EQ(observer.shadow.output_error_buckets[0], 0);
}

TEST(SparseAttention, StepsReportSavingsAndFidelity) {
  AttentionObserver observer;
  Generated sparse;
  {
    const auto engine = CreateTinyEngine(Options(), &observer);
    ASSERT_NE(engine, nullptr);
    sparse = Generate(*engine, TopTheta(TinyRequest(99, 100, 20, 1), 4));
  }
  EXPECT_EQ(observer.top_theta.value_rows, sparse.usage.attention.value_rows);
  EXPECT_EQ(observer.top_theta.value_rows_read, sparse.usage.attention.value_rows_read);
  // Two layers of eight heads; the step launched before the end was known counts here alone.
  const std::int64_t heads = Sum(observer.fidelity[0].ratio_buckets);
  EXPECT_GE(heads, 19 * 16);
  EXPECT_LE(heads, 20 * 16);
  EXPECT_EQ(Sum(observer.fidelity[0].dropped_mass_buckets), heads);
  EXPECT_EQ(Sum(observer.fidelity[1].ratio_buckets), 0);
  EXPECT_GT(observer.fidelity[0].ratio_sum, 0);
}

TEST(SparseAttention, AMissingTableIsTheRequestsError) {
  TinyEngineOptions options = Options();
  options.thresholds = nullptr;
  const auto engine = CreateTinyEngine(options);
  ASSERT_NE(engine, nullptr);
  const auto handle = engine->Submit(TopTheta(TinyRequest(99, 10, 4, 1), 4), nullptr, 0);
  EXPECT_EQ(handle.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(handle.status().message().find("thresher calibrate"), std::string::npos);
  EXPECT_EQ(Generate(*engine, TinyRequest(99, 10, 4, 1)).tokens.size(), 4u);
}

}  // namespace
}  // namespace thresher::testing
