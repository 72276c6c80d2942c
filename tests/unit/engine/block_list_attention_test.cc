// Prompts under Stem and its kin on the real engine with a tiny model: which cached blocks they
// share, and that chunks, neighbours, ranks and prefix hits change nothing.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "tests/support/fakes/fake_engine.h"
#include "tests/support/tiny_engine.h"
#include "tests/support/tiny_thresholds.h"

namespace thresher::testing {
namespace {

constexpr float kF32Tolerance = 1e-3f;  // see engine_test.cc

const ThresholdContents& Table() {
  static const ThresholdContents table = TinyThresholds();
  return table;
}

// Budgets of two blocks, the first and the own among them: query blocks 0 and 1 are dense for every
// length, the later ones never.
TinyEngineOptions Options() {
  TinyEngineOptions options{.model = "llama31", .max_model_len = 1000, .max_position = 1000};
  options.attention.top_theta.layers = {};
  BlockListSettings& lists = options.attention.block_lists;
  lists.dense_layers = {};
  lists.schedule.dense_below = 1;
  lists.schedule.short_rate_per_mille = 0;
  lists.schedule.short_bias = 2;
  lists.forced = {.sink = 1, .local = 1, .in_budget = true};
  lists.streaming = {.sink = 1, .local = 1, .in_budget = false};
  lists.covered_mass = 0.5f;
  options.thresholds = &Table();
  return options;
}

GenerationRequest Under(const std::string& policy, int prompt_length, int variant) {
  GenerationRequest request = TinyRequest(99, prompt_length, 12, variant);
  request.attention.level = "custom";
  request.attention.prefill = {policy, {}};
  return request;
}

GenerationRequest Shortened(GenerationRequest request, std::size_t prompt_length) {
  request.prompt.resize(prompt_length);
  return request;
}

TEST(BlockListAttention, Oracle10APromptOfAnotherLengthSharesOnlyTheDenseBeginning) {
  TinyEngineOptions options = Options();
  const auto cold = CreateTinyEngine(options);
  options.prefix_cache = true;
  const auto warm = CreateTinyEngine(options);
  ASSERT_TRUE(cold != nullptr && warm != nullptr);
  const GenerationRequest first = Under("stem", 700, 1);
  Generate(*warm, first);
  const struct {
    const char* what;
    GenerationRequest request;
    int cached_tokens;
  } kCases[] = {
      {"the same prompt", first, 640},
      {"as many blocks", Shortened(first, 690), 640},
      {"fewer blocks", Shortened(first, 640), 256},
      {"dense",
       [&] {
         auto r = first;
         r.attention = {};
         return r;
       }(),
       256},
      {"another beta",
       [&] {
         auto r = first;
         r.attention.prefill.parameters = {{"beta", 0.5}};
         return r;
       }(),
       256},
  };
  for (const auto& [what, request, cached_tokens] : kCases) {
    const Generated hit = Generate(*warm, request);
    EXPECT_EQ(hit.usage.cached_tokens, cached_tokens) << what;
    ExpectSameRun(Generate(*cold, request), hit, kF32Tolerance, what);
  }
}

TEST(BlockListAttention, Oracle10ASecondTurnReadsNothingThatDependedOnTheFirstOnesLength) {
  TinyEngineOptions options = Options();
  const auto cold = CreateTinyEngine(options);
  options.prefix_cache = true;
  const auto warm = CreateTinyEngine(options);
  ASSERT_TRUE(cold != nullptr && warm != nullptr);
  // 258 tokens: the sparse rows stand in a block that decoding fills.
  GenerationRequest request = Under("stem", 258, 2);
  request.max_tokens = 40;
  const Generated answer = Generate(*warm, request);
  request.prompt.insert(request.prompt.end(), answer.tokens.begin(), answer.tokens.end());
  for (const bool dense : {false, true}) {
    if (dense) request.attention = {};
    const Generated second = Generate(*warm, request);
    EXPECT_EQ(second.usage.cached_tokens, 256);
    ExpectSameRun(Generate(*cold, request), second, kF32Tolerance, dense ? "dense" : "stem");
  }
}

TEST(BlockListAttention, LooseMatchesAnyLengthAndDenseOnlyNone) {
  TinyEngineOptions options = Options();
  options.prefix_cache = true;
  options.attention.block_lists.cache_match = CacheMatch::kLoose;
  const auto loose = CreateTinyEngine(options);
  options.attention.block_lists.cache_match = CacheMatch::kDenseOnly;
  const auto dense_only = CreateTinyEngine(options);
  ASSERT_TRUE(loose != nullptr && dense_only != nullptr);
  const GenerationRequest first = Under("stem", 700, 1);
  Generate(*loose, first);
  EXPECT_EQ(Generate(*loose, Shortened(first, 640)).usage.cached_tokens, 512);
  Generate(*dense_only, first);
  EXPECT_EQ(Generate(*dense_only, first).usage.cached_tokens, 256);
}

TEST(BlockListAttention, CountsTheBlocksItReads) {
  const auto engine = CreateTinyEngine(Options());
  ASSERT_NE(engine, nullptr);
  // Six query blocks: 21 causal pairs, in two layers of eight heads. Each row reads two at most.
  constexpr std::int64_t kHeads = 2 * 8;
  const Generated stem = Generate(*engine, Under("stem", 700, 3));
  EXPECT_EQ(stem.usage.attention.blocks, 21 * kHeads);
  EXPECT_EQ(stem.usage.attention.blocks_selected, 11 * kHeads);
  GenerationRequest request = TinyRequest(99, 700, 12, 3);
  const Generated dense = Generate(*engine, request);
  EXPECT_EQ(dense.usage.attention.blocks, 21 * kHeads);
  EXPECT_EQ(dense.usage.attention.blocks_selected, 21 * kHeads);
  EXPECT_NE(dense.logprobs[0].logprob, stem.logprobs[0].logprob);
  const Generated streaming = Generate(*engine, Under("streaming", 700, 3));
  EXPECT_EQ(streaming.usage.attention.blocks_selected, 11 * kHeads);
  // Under the budgets that read the first and the own block alone, Stem has no choice.
  ExpectSameRun(streaming, stem, kF32Tolerance, "streaming");
}

TEST(BlockListAttention, AShortPromptIsDenseToTheBitAndCounted) {
  TinyEngineOptions options = Options();
  options.attention.block_lists.schedule = {};
  const auto engine = CreateTinyEngine(options);
  ASSERT_NE(engine, nullptr);
  const GenerationRequest request = TinyRequest(99, 700, 12, 3);
  const Generated stem = Generate(*engine, Under("stem", 700, 3));
  ExpectSameBits(Generate(*engine, request), stem, "short prompt");
  EXPECT_EQ(
      stem.usage.attention.dense_fallbacks[static_cast<std::size_t>(DenseFallback::kShortPrompt)],
      1);
}

TEST(BlockListAttention, DenseLayersAreDense) {
  TinyEngineOptions options = Options();
  options.attention.block_lists.dense_layers = {0, 1, 7};
  const auto engine = CreateTinyEngine(options);
  ASSERT_NE(engine, nullptr);
  const GenerationRequest request = TinyRequest(99, 700, 12, 3);
  const Generated stem = Generate(*engine, Under("stem", 700, 3));
  ExpectSameBits(Generate(*engine, request), stem, "all layers dense");
  EXPECT_EQ(stem.usage.attention.blocks_selected, stem.usage.attention.blocks);
}

// A wider choice of blocks than above, under every policy, with dense and Top-θ decode.
TinyEngineOptions Roomy() {
  TinyEngineOptions options = Options();
  options.attention.block_lists.schedule.short_bias = 3;
  options.attention.block_lists.forced = {.sink = 0, .local = 1, .in_budget = false};
  return options;
}

GenerationRequest Mixed(int index) {
  constexpr const char* kPolicies[] = {"stem", "dense", "uniform", "streaming", "xattention"};
  GenerationRequest request = Under(kPolicies[index % 5], 380 + (index * 97) % 420, index);
  if (index % 2 == 1) request.attention.decode = {"top_theta", {{"k", 4.0 + index}}};
  return request;
}

TEST(BlockListAttention, AMixedCrowdAndChunksChangeNothing) {
  TinyEngineOptions options = Roomy();
  const auto alone = CreateTinyEngine(options);
  options.num_blocks = 1024;
  const auto crowd = CreateTinyEngine(options);
  options.max_prefill_chunk = 130;
  const auto chunked = CreateTinyEngine(options);
  ASSERT_TRUE(alone != nullptr && crowd != nullptr && chunked != nullptr);
  std::vector<std::unique_ptr<RequestHandle>> handles, chunked_handles;
  for (int i = 0; i < 10; ++i) {
    handles.push_back(MustSubmit(*crowd, Mixed(i)));
    chunked_handles.push_back(MustSubmit(*chunked, Mixed(i)));
  }
  for (std::size_t i = 0; i < 10; ++i) {
    const Generated solo = Generate(*alone, Mixed(static_cast<int>(i)));
    const Generated crowded = Collect(*handles[i]);
    ExpectSameRun(solo, crowded, kF32Tolerance, "crowd " + std::to_string(i));
    EXPECT_EQ(solo.usage.attention.blocks, crowded.usage.attention.blocks);
    ExpectSameRun(solo, Collect(*chunked_handles[i]), kF32Tolerance,
                  "chunked " + std::to_string(i));
  }
}

TEST(BlockListAttention, RanksChangeNothing) {
  const auto one = CreateTinyEngine(Roomy());
  ASSERT_NE(one, nullptr);
  for (const int ranks : {2, 4}) {
    TinyEngineOptions options = Roomy();
    options.num_ranks = ranks;
    const auto many = CreateTinyEngine(options);
    ASSERT_NE(many, nullptr);
    for (int i = 0; i < 5; ++i) {
      const Generated solo = Generate(*one, Mixed(i));
      const Generated shared = Generate(*many, Mixed(i));
      const std::string what = std::to_string(ranks) + " ranks, request " + std::to_string(i);
      ExpectSameRun(solo, shared, kF32Tolerance, what);
      EXPECT_EQ(solo.usage.attention.blocks, shared.usage.attention.blocks) << what;
    }
  }
}

TEST(BlockListAttention, PreemptionChangesNothing) {
  TinyEngineOptions options = Roomy();
  options.max_model_len = 500;
  const auto alone = CreateTinyEngine(options);
  CountingObserver observer;
  options.num_blocks = 60;
  options.prefix_cache = true;
  const auto tight = CreateTinyEngine(options, &observer);
  ASSERT_TRUE(alone != nullptr && tight != nullptr);
  const auto request = [](int i) {
    GenerationRequest made = Under("stem", 390 + i, i);
    made.max_tokens = std::nullopt;
    made.attention.decode = {"top_theta", {{"k", 6.0}}};
    return made;
  };
  std::vector<std::unique_ptr<RequestHandle>> handles;
  for (int i = 0; i < 3; ++i) handles.push_back(MustSubmit(*tight, request(i)));
  for (int i = 0; i < 3; ++i) {
    ExpectSameRun(Generate(*alone, request(i)), Collect(*handles[static_cast<std::size_t>(i)]),
                  kF32Tolerance, "request " + std::to_string(i));
  }
  EXPECT_GT(observer.num_preemptions.load(), 0);
}

TEST(BlockListAttention, AnIntervalLeavesItsBlocksOutOfItsRowsAlone) {
  TinyEngineOptions options = Options();
  options.attention.allows_evaluation_policies = true;
  const auto engine = CreateTinyEngine(options);
  options.max_prefill_chunk = 100;
  const auto chunked = CreateTinyEngine(options);
  ASSERT_TRUE(engine != nullptr && chunked != nullptr);
  const auto interval = [](std::vector<std::pair<std::string, double>> parameters) {
    GenerationRequest request = Under("interval", 700, 1);
    request.attention.prefill.parameters = std::move(parameters);
    return request;
  };
  // 21 causal pairs of six blocks, in two layers of eight heads.
  const auto num_deleted = [](const Generated& run) {
    EXPECT_EQ(run.usage.attention.blocks, 21 * 16);
    return 21 - run.usage.attention.blocks_selected / 16;
  };
  const Generated dense = Generate(*engine, Under("dense", 700, 1));
  const Generated nothing = Generate(*engine, interval({{"row_from", 6}}));
  ExpectSameBits(dense, nothing, "no row");
  EXPECT_EQ(num_deleted(nothing), 0);
  const Generated all = Generate(*engine, interval({}));
  EXPECT_EQ(num_deleted(all), 5);  // block 0, of every row but its own
  const Generated late = Generate(*engine, interval({{"row_from", 4}}));
  EXPECT_EQ(num_deleted(late), 2);
  const Generated early = Generate(*engine, interval({{"row_to", 4}}));
  EXPECT_EQ(num_deleted(early), 3);
  const Generated middle = Generate(*engine, interval({{"block_from", 2}, {"block_to", 5}}));
  EXPECT_EQ(num_deleted(middle), 1 + 2 + 3);
  const Generated* runs[] = {&dense, &all, &late, &early, &middle};
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < i; ++j) {
      EXPECT_NE(runs[i]->logprobs[0].logprob, runs[j]->logprobs[0].logprob) << i << " " << j;
    }
  }
  ExpectSameRun(late, Generate(*chunked, interval({{"row_from", 4}})), kF32Tolerance, "chunks");
  GenerationRequest empty = interval({{"block_from", 3}, {"block_to", 3}});
  const absl::Status status = engine->Submit(empty, nullptr, 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("must be above block_from, 3"), std::string::npos)
      << status;
}

TEST(BlockListAttention, EvaluationPoliciesAreRefusedFromRequests) {
  TinyEngineOptions options = Roomy();
  const auto engine = CreateTinyEngine(options);
  options.attention.allows_evaluation_policies = true;
  const auto evaluation = CreateTinyEngine(options);
  ASSERT_TRUE(engine != nullptr && evaluation != nullptr);
  for (const char* policy : {"oracle", "random", "interval"}) {
    const auto refused = engine->Submit(Under(policy, 400, 1), nullptr, 0);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
    const Generated generated = Generate(*evaluation, Under(policy, 700, 1));
    EXPECT_EQ(generated.tokens.size(), 12u) << policy;
    EXPECT_LT(generated.usage.attention.blocks_selected, generated.usage.attention.blocks);
  }
}

}  // namespace
}  // namespace thresher::testing
