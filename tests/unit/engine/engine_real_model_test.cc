// The engine end to end on a real model, SmolLM2-135M-Instruct (see test_environment.h). Skips
// without its file, unless THRESHER_REQUIRE_MODEL is 1.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "engine/engine.h"
#include "tests/support/fakes/fake_engine.h"
#include "tests/support/real_model_fixture.h"
#include "tests/support/tiny_engine.h"

namespace thresher::testing {
namespace {

// 30 layers of about 10 · 1536 terms each add up to 2⁻²⁴ · 460,000 ≈ 0.03 at worst, if all errors
// had one sign; as a random walk they reach 2⁻²⁴ · √460,000 ≈ 4e-5 of logits below 30.
constexpr float kTolerance = 5e-3f;

class EngineOnRealModel : public RealModelFixture {
 protected:
  std::unique_ptr<Engine> Create(int num_ranks, int max_prefill_chunk = 0) const {
    EngineOptions options;
    options.model_path = model_path_;
    options.tensor_parallel = num_ranks;
    options.backend = {.max_isa = TestMaxIsa(), .full_precision = true};
    options.kv_cache_dtype = DType::kF32;
    options.kv_cache_tokens = 4096;
    options.stalled_reader_timeout = absl::InfiniteDuration();  // streams are read in turn
    options.scheduler.max_prefill_chunk = max_prefill_chunk;
    auto engine = Engine::Create(options, nullptr, LoadProgress());
    EXPECT_TRUE(engine.ok()) << engine.status();
    return engine.ok() ? *std::move(engine) : nullptr;
  }

  static GenerationRequest Prompt(const Engine& engine, const std::string& text, int max_tokens) {
    GenerationRequest request;
    const absl::Status status = engine.tokenizer().Encode(text, {}, request.prompt);
    EXPECT_TRUE(status.ok()) << status;
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    request.sampling.logprobs = 2;
    return request;
  }
};

const char* const kPrompts[] = {
    "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
    "The history of the Roman Empire begins",
    "def fibonacci(n):\n",
};

TEST_F(EngineOnRealModel, TellsTheCapitalOfFrance) {
  const auto engine = Create(1);
  ASSERT_NE(engine, nullptr);
  const Generated generated = Generate(*engine, Prompt(*engine, kPrompts[0], 24));
  const std::string text = Decode(engine->tokenizer(), generated.tokens, true);
  EXPECT_NE(text.find("capital of France is Paris"), std::string::npos) << text;
}

TEST_F(EngineOnRealModel, ThreeRanksChunksAndACrowdChangeNothing) {
  std::vector<GenerationRequest> requests;
  std::vector<Generated> alone;
  {
    const auto engine = Create(1);
    ASSERT_NE(engine, nullptr);
    for (const char* prompt : kPrompts) {
      requests.push_back(Prompt(*engine, prompt, 16));
      alone.push_back(Generate(*engine, requests.back()));
    }
    std::vector<std::unique_ptr<RequestHandle>> handles;
    for (int i = 0; i < 12; ++i) handles.push_back(MustSubmit(*engine, requests[i % 3]));
    for (int i = 0; i < 12; ++i) {
      ExpectSameRun(alone[i % 3], Collect(*handles[i]), kTolerance, "crowd " + std::to_string(i));
    }
  }
  const auto engine = Create(/*num_ranks=*/3, /*max_prefill_chunk=*/4);
  ASSERT_NE(engine, nullptr);
  for (int i = 0; i < 3; ++i) {
    ExpectSameRun(alone[i], Generate(*engine, requests[i]), kTolerance,
                  "three ranks, prompt " + std::to_string(i));
  }
}

TEST_F(EngineOnRealModel, RefusesRanksThatDoNotDivideTheHeads) {
  EngineOptions options;
  options.model_path = model_path_;
  options.tensor_parallel = 2;
  options.kv_cache_tokens = 1024;
  const absl::Status status = Engine::Create(options, nullptr, LoadProgress()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

}  // namespace
}  // namespace thresher::testing
