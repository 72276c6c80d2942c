// The real engine on tiny models: whatever surrounds a request, its tokens and log-probabilities
// stay those of its solo run.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/fakes/fake_engine.h"
#include "tests/support/logits_golden.h"
#include "tests/support/tiny_engine.h"

namespace thresher::testing {
namespace {

// In f32 two orders of summation differ by at most about n · 2⁻²⁴ of the sum of magnitudes, for n
// terms. The longest path through two layers adds about 900 terms, and the goldens' logits stay
// below 20, so 900 · 2⁻²⁴ · 20 ≈ 1e-3 bounds a log-probability.
constexpr float kF32Tolerance = 1e-3f;
// With a bf16 cache an f32 difference can turn the rounding of a cached element, 2⁻⁸ of it. A row's
// logits stay within a few such steps.
constexpr float kBf16Tolerance = 0.05f;

int VocabSize(Engine& engine) { return engine.model_config().vocab_size; }

class EveryTinyModel : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Engine, EveryTinyModel, ::testing::ValuesIn(TinyModels()),
                         [](const auto& info) { return StemOf(info.param); });

TEST_P(EveryTinyModel, PromptLogprobsAreThoseOfTheOracle) {
  const auto engine = CreateTinyEngine({.model = GetParam()});
  ASSERT_NE(engine, nullptr);
  const LogitsGolden golden = ReadLogitsGolden(StemOf(GetParam()));
  GenerationRequest request;
  request.prompt = golden.tokens;
  request.max_tokens = 0;
  request.sampling.prompt_logprobs = 1;
  ASSERT_LE(golden.tokens.size(), static_cast<std::size_t>(engine->max_model_len()));
  const auto handle = MustSubmit(*engine, request);
  ReadAll(*handle);
  const PromptLogprobs* scores = handle->prompt_logprobs();
  ASSERT_NE(scores, nullptr);
  ASSERT_EQ(scores->size(), golden.tokens.size());
  const auto vocab = static_cast<std::size_t>(VocabSize(*engine));
  for (std::size_t i = 1; i < golden.tokens.size(); ++i) {
    const float* row = golden.logits.data() + (i - 1) * vocab;
    double sum = 0;
    for (std::size_t t = 0; t < vocab; ++t) sum += std::exp(static_cast<double>(row[t]));
    ASSERT_TRUE((*scores)[i].has_value()) << i;
    EXPECT_NEAR((*scores)[i]->logprob, row[golden.tokens[i]] - std::log(sum), kF32Tolerance) << i;
    const std::ptrdiff_t best = std::max_element(row, row + vocab) - row;
    EXPECT_NEAR((*scores)[i]->top.at(0).second, row[best] - std::log(sum), kF32Tolerance) << i;
  }
}

TEST_P(EveryTinyModel, ACrowdAndChunksChangeNothing) {
  const auto alone = CreateTinyEngine({.model = GetParam()});
  const auto crowd = CreateTinyEngine({.model = GetParam()});
  const auto chunked = CreateTinyEngine({.model = GetParam(), .max_prefill_chunk = 5});
  ASSERT_TRUE(alone != nullptr && crowd != nullptr && chunked != nullptr);
  const int vocab = VocabSize(*alone);
  const int longest = alone->max_model_len();
  std::vector<GenerationRequest> requests;
  std::vector<std::unique_ptr<RequestHandle>> handles;
  for (int i = 0; i < 32; ++i) {
    requests.push_back(TinyRequest(vocab, 1 + (i * 11) % (longest - 13), 12, i));
    handles.push_back(MustSubmit(*crowd, requests.back()));
  }
  for (int i = 0; i < 32; ++i) {
    const Generated solo = Generate(*alone, requests[i]);
    ExpectSameRun(solo, Collect(*handles[i]), kF32Tolerance, "crowd, request " + std::to_string(i));
    if (i % 4 != 0) continue;
    ExpectSameRun(solo, Generate(*chunked, requests[i]), kF32Tolerance,
                  "chunked, request " + std::to_string(i));
  }
}

TEST(Engine, PreemptionChangesNothing) {
  CountingObserver observer;
  const auto alone = CreateTinyEngine({.model = "llama31", .max_model_len = 120});
  const auto tight = CreateTinyEngine(
      {.model = "llama31", .num_blocks = 10, .max_model_len = 120, .prefix_cache = true},
      &observer);
  std::vector<GenerationRequest> requests;
  std::vector<std::unique_ptr<RequestHandle>> handles;
  for (int i = 0; i < 5; ++i) {
    requests.push_back(TinyRequest(99, 20 + i, 0, i));
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

TEST(Engine, APrefixHitChangesNothing) {
  const auto cold = CreateTinyEngine({.model = "llama31"});
  const auto warm = CreateTinyEngine({.model = "llama31", .prefix_cache = true});
  // Around the block's borders, each twice, and one that extends the other.
  for (const int length : {15, 16, 17, 32, 33, 60}) {
    GenerationRequest request = TinyRequest(99, length, 8, length);
    const Generated solo = Generate(*cold, request);
    for (int run = 0; run < 2; ++run) {
      const Generated hit = Generate(*warm, request);
      ExpectSameRun(solo, hit, kF32Tolerance, "length " + std::to_string(length));
      const int whole_blocks = (length - 1) / kTinyBlockSize * kTinyBlockSize;
      EXPECT_EQ(hit.usage.cached_tokens, run == 0 ? 0 : whole_blocks) << length;
    }
    const GenerationRequest extension = TinyRequest(99, length + 20, 8, length);
    ExpectSameRun(Generate(*cold, extension), Generate(*warm, extension), kF32Tolerance,
                  "extension of " + std::to_string(length));
  }
}

TEST(Engine, RanksChangeNothing) {
  const struct {
    const char* model;
    std::vector<int> ranks;
  } kCases[] = {{"llama31", {2, 4}}, {"qwen2_sharded", {2, 4}}, {"llama_tied_f16", {3}}};
  for (const auto& [model, ranks] : kCases) {
    const auto one = CreateTinyEngine({.model = model});
    ASSERT_NE(one, nullptr);
    for (const int num_ranks : ranks) {
      const auto many = CreateTinyEngine({.model = model, .num_ranks = num_ranks});
      ASSERT_NE(many, nullptr);
      std::vector<GenerationRequest> requests;
      std::vector<std::unique_ptr<RequestHandle>> handles;
      for (int i = 0; i < 8; ++i) {
        requests.push_back(TinyRequest(VocabSize(*one), 1 + 9 * i, 12, i));
        handles.push_back(MustSubmit(*many, requests.back()));
      }
      for (int i = 0; i < 8; ++i) {
        ExpectSameRun(Generate(*one, requests[i]), Collect(*handles[i]), kF32Tolerance,
                      std::string(model) + " on " + std::to_string(num_ranks) + " ranks");
      }
    }
  }
}

TEST(Engine, Bf16CacheAndWeightsAreCrowdProofToo) {
  const TinyEngineOptions options{
      .model = "llama31", .kv_cache_dtype = DType::kBF16, .full_precision = false};
  const auto alone = CreateTinyEngine(options);
  const auto crowd = CreateTinyEngine(options);
  std::vector<GenerationRequest> requests;
  std::vector<std::unique_ptr<RequestHandle>> handles;
  for (int i = 0; i < 32; ++i) {
    requests.push_back(TinyRequest(99, 1 + (i * 7) % 200, 12, i));
    handles.push_back(MustSubmit(*crowd, requests.back()));
  }
  for (int i = 0; i < 32; ++i) {
    ExpectSameRun(Generate(*alone, requests[i]), Collect(*handles[i]), kBf16Tolerance,
                  "request " + std::to_string(i));
  }
}

TEST(Engine, ASeededDrawDoesNotDependOnItsNeighbours) {
  const auto engine = CreateTinyEngine({.model = "llama31"});
  GenerationRequest seeded = TinyRequest(99, 30, 40, 1);
  seeded.sampling.temperature = 0.8;
  seeded.sampling.seed = 42;
  seeded.n = 2;
  const auto tokens_of = [&](std::unique_ptr<RequestHandle> handle) {
    const std::vector<TokenEvent> events = ReadAll(*handle);
    return std::pair(TokensOf(events, 0), TokensOf(events, 1));
  };
  const auto alone = tokens_of(MustSubmit(*engine, seeded));
  EXPECT_EQ(alone.first.size(), 40u);
  EXPECT_NE(alone.first, alone.second);
  for (int run = 0; run < 3; ++run) {
    std::vector<std::unique_ptr<RequestHandle>> neighbours;
    for (int i = 0; i < 10; ++i) {
      GenerationRequest unseeded = TinyRequest(99, 10 + i, 30, 100 + i);
      unseeded.sampling.temperature = 1;
      neighbours.push_back(MustSubmit(*engine, unseeded));
    }
    EXPECT_EQ(tokens_of(MustSubmit(*engine, seeded)), alone);
  }
}

TEST(Engine, MinTokensKeepsEveryEndTokenOut) {
  const auto engine = CreateTinyEngine({.model = "llama31"});
  GenerationRequest request = TinyRequest(99, 10, 20, 1);
  request.stop_token_ids = {1, 2, 50};
  request.sampling.logit_bias = {{1, 100.0f}, {2, 99.0f}, {50, 98.0f}};
  EXPECT_EQ(Generate(*engine, request).tokens.size(), 0u);
  request.min_tokens = 7;
  const Generated generated = Generate(*engine, request);
  EXPECT_EQ(generated.tokens.size(), 7u);
  for (const TokenId token : generated.tokens) {
    EXPECT_TRUE(token != 1 && token != 2 && token != 50) << token;
  }
}

TEST(Engine, PenaltiesSurvivePreemptionAndTheOverlapOfSteps) {
  CountingObserver observer;
  const auto alone = CreateTinyEngine({.model = "llama31", .max_model_len = 100});
  const auto tight =
      CreateTinyEngine({.model = "llama31", .num_blocks = 8, .max_model_len = 100}, &observer);
  std::vector<GenerationRequest> requests;
  std::vector<std::unique_ptr<RequestHandle>> handles;
  for (int i = 0; i < 4; ++i) {
    requests.push_back(TinyRequest(99, 20, 0, i));
    requests.back().max_tokens = std::nullopt;
    requests.back().sampling.frequency_penalty = 2;
    requests.back().sampling.repetition_penalty = 1.3;
    handles.push_back(MustSubmit(*tight, requests.back()));
  }
  for (int i = 0; i < 4; ++i) {
    const Generated solo = Generate(*alone, requests[i]);
    ExpectSameRun(solo, Collect(*handles[i]), kF32Tolerance, "request " + std::to_string(i));
    // With a penalty of 2 for each time, no token comes often.
    for (TokenId token = 0; token < 99; ++token) {
      EXPECT_LE(std::count(solo.tokens.begin(), solo.tokens.end(), token), 12) << token;
    }
  }
  EXPECT_GT(observer.num_preemptions.load(), 0);
}

TEST(Engine, OptionsNameTheirFlags) {
  EngineOptions options;
  options.model_path = "x";
  EXPECT_TRUE(options.Validate().ok()) << options.Validate();
  const auto message = [](const EngineOptions& bad) {
    return std::string(bad.Validate().message());
  };
  EngineOptions bad = options;
  bad.model_path.clear();
  EXPECT_NE(message(bad).find("--model"), std::string::npos);
  bad = options;
  bad.tensor_parallel = 0;
  EXPECT_NE(message(bad).find("--tensor-parallel is 0"), std::string::npos);
  bad = options;
  bad.kv_cache_tokens = 5;
  EXPECT_NE(message(bad).find("--kv-cache-tokens is 5"), std::string::npos);
  bad = options;
  bad.kv_cache_dtype = DType::kF16;
  EXPECT_NE(message(bad).find("--kv-cache-dtype"), std::string::npos);
  bad = options;
  bad.max_model_len = -1;
  EXPECT_NE(message(bad).find("--max-model-len is -1"), std::string::npos);
  bad = options;
  bad.scheduler.token_budget = 1;
  EXPECT_NE(message(bad).find("token_budget"), std::string::npos);
}

}  // namespace
}  // namespace thresher::testing
