// The engine on a GPU against the engine on the CPU: the same model, requests and seeds give the
// same tokens up to near-ties, alone and in a crowd, whose decode steps are replays of captured
// ones.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "engine/engine.h"
#include "tests/support/fakes/fake_engine.h"
#include "tests/support/test_environment.h"
#include "tests/support/tested_backends.h"
#include "tests/support/tiny_engine.h"

namespace thresher::testing {
namespace {

// In f32 the sums differ in their order alone: see engine_real_model_test.cc. With bf16 every input
// of a product is rounded by 2^-9 relative at most: of 30 layers with six products in a row, whose
// errors add up as a random walk, √180 · 2^-9 · 0.6 of logits whose spread is about 5 reach 0.08; a
// log-probability has the error of its logit and of the normaliser, and the largest of 16 · 3
// counts.
constexpr float kF32Tolerance = 5e-3f, kBf16Tolerance = 0.35f;

class EngineOnCuda : public ::testing::TestWithParam<BackendVariant> {
 protected:
  void SetUp() override {
    if (!MachineRuns(GetParam())) GTEST_SKIP() << "NOT RUN: this machine has no GPU";
    const std::optional<std::string> path = RealModelPath();
    if (!path.has_value()) GTEST_SKIP() << "no SmolLM2 file; THRESHER_TEST_MODEL may name it";
    path_ = *path;
  }

  std::unique_ptr<Engine> Create(DeviceKind device, bool full_precision) const {
    EngineOptions options;
    options.model_path = path_;
    options.device = device;
    options.backend = {.full_precision = full_precision};
    options.kv_cache_dtype = full_precision ? DType::kF32 : DType::kBF16;
    options.kv_cache_tokens = 1 << 16;
    options.stalled_reader_timeout = absl::InfiniteDuration();  // streams are read in turn
    auto engine = Engine::Create(options, nullptr, LoadProgress());
    EXPECT_TRUE(engine.ok()) << engine.status();
    return engine.ok() ? *std::move(engine) : nullptr;
  }

  static std::vector<GenerationRequest> Requests(const Engine& engine) {
    std::vector<GenerationRequest> requests;
    for (const char* text : {"The capital of France is", "The history of the Roman Empire begins",
                             "def fibonacci(n):\n"}) {
      GenerationRequest request;
      EXPECT_TRUE(engine.tokenizer().Encode(text, {}, request.prompt).ok());
      request.max_tokens = 40;
      request.ignore_eos = true;
      request.sampling.temperature = 0;
      request.sampling.logprobs = 2;
      requests.push_back(request);
      request.sampling.repetition_penalty = 1.3;
      request.sampling.frequency_penalty = 0.4;
      requests.push_back(request);
    }
    return requests;
  }

  std::string path_;
};

TEST_P(EngineOnCuda, GreedyTokensAreTheCpusAndACrowdChangesNothing) {
  const float tolerance = GetParam().full_precision() ? kF32Tolerance : kBf16Tolerance;
  std::vector<GenerationRequest> requests;
  std::vector<Generated> expected;
  {
    const auto engine = Create(DeviceKind::kCpu, true);
    ASSERT_NE(engine, nullptr);
    requests = Requests(*engine);
    for (const GenerationRequest& request : requests)
      expected.push_back(Generate(*engine, request));
  }
  const auto engine = Create(DeviceKind::kCuda, GetParam().full_precision());
  ASSERT_NE(engine, nullptr);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ExpectSameRun(expected[i], Generate(*engine, requests[i]), tolerance,
                  "alone " + std::to_string(i));
  }
  // Batches shrink as requests of other lengths end, so that several shapes are captured.
  std::vector<std::unique_ptr<RequestHandle>> handles;
  for (int i = 0; i < 48; ++i) {
    GenerationRequest request = requests[static_cast<std::size_t>(i) % requests.size()];
    request.max_tokens = 20 + i % 21;
    handles.push_back(MustSubmit(*engine, request));
  }
  for (std::size_t i = 0; i < handles.size(); ++i) {
    Generated wanted = expected[i % requests.size()];
    const auto length = static_cast<std::size_t>(20 + i % 21);
    wanted.tokens.resize(length);
    wanted.logprobs.resize(length);
    ExpectSameRun(wanted, Collect(*handles[i]), tolerance, "crowd " + std::to_string(i));
  }
  ExpectClean(*engine);
}

TEST_P(EngineOnCuda, TheSameRequestAloneGivesTheSameBitsAgain) {
  const auto engine = Create(DeviceKind::kCuda, GetParam().full_precision());
  ASSERT_NE(engine, nullptr);
  for (GenerationRequest request : Requests(*engine)) {
    request.sampling.temperature = 1;
    request.sampling.top_p = 0.95;
    request.sampling.seed = 7;
    const Generated first = Generate(*engine, request);
    for (int i = 0; i < 3; ++i) ExpectSameBits(first, Generate(*engine, request), "again");
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, EngineOnCuda, ::testing::ValuesIn(TestedBackends()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace thresher::testing
