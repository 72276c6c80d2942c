// With batch_invariant a request has the bits of its solo run, whatever is around it: a crowd,
// chunks, blocks found in the cache, a preemption. On a tiny model with bf16 weights and cache, and
// on the real one (see test_environment.h), which is skipped without its file.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tests/support/fakes/fake_engine.h"
#include "tests/support/real_model_fixture.h"
#include "tests/support/tiny_engine.h"

namespace thresher::testing {
namespace {

TinyEngineOptions Tiny() {
  return {.model = "llama31",
          .kv_cache_dtype = DType::kBF16,
          .full_precision = false,
          .batch_invariant = true};
}

TEST(BatchInvariance, ACrowdAndChunksChangeNoBitOfATinyModel) {
  const auto alone = CreateTinyEngine(Tiny());
  const auto crowd = CreateTinyEngine(Tiny());
  TinyEngineOptions options = Tiny();
  options.max_prefill_chunk = 7;
  const auto chunked = CreateTinyEngine(options);
  ASSERT_TRUE(alone != nullptr && crowd != nullptr && chunked != nullptr);
  std::vector<GenerationRequest> requests;
  std::vector<std::unique_ptr<RequestHandle>> handles;
  for (int i = 0; i < 32; ++i) {
    requests.push_back(TinyRequest(99, 1 + (i * 7) % 200, 12, i));
    handles.push_back(MustSubmit(*crowd, requests.back()));
  }
  for (int i = 0; i < 32; ++i) {
    const std::string what = "request " + std::to_string(i);
    const Generated solo = Generate(*alone, requests[i]);
    ExpectSameBits(solo, Collect(*handles[i]), "crowd, " + what);
    if (i % 4 == 0) ExpectSameBits(solo, Generate(*chunked, requests[i]), "chunked, " + what);
  }
}

TEST(BatchInvariance, APreemptionChangesNoBitOfATinyModel) {
  CountingObserver observer;
  TinyEngineOptions options = Tiny();
  options.max_model_len = 120;
  const auto alone = CreateTinyEngine(options);
  options.num_blocks = 10;
  options.prefix_cache = true;
  const auto tight = CreateTinyEngine(options, &observer);
  std::vector<GenerationRequest> requests;
  std::vector<std::unique_ptr<RequestHandle>> handles;
  for (int i = 0; i < 5; ++i) {
    requests.push_back(TinyRequest(99, 20 + i, 0, i));
    requests.back().max_tokens = std::nullopt;
    handles.push_back(MustSubmit(*tight, requests.back()));
  }
  for (int i = 0; i < 5; ++i) {
    ExpectSameBits(Generate(*alone, requests[i]), Collect(*handles[i]),
                   "request " + std::to_string(i));
  }
  EXPECT_GT(observer.num_preemptions.load(), 0);
}

// What a turn's answer left in the cache was written by the decode kernel: the next turn, of which
// it is a part of the prompt, must not read it.
TEST(BatchInvariance, ANextTurnReadsOnlyBlocksOfPrompts) {
  const auto cold = CreateTinyEngine(Tiny());
  TinyEngineOptions options = Tiny();
  options.prefix_cache = true;
  const auto warm = CreateTinyEngine(options);
  ASSERT_TRUE(cold != nullptr && warm != nullptr);
  GenerationRequest turn = TinyRequest(99, 3 * kTinyBlockSize + 5, 4 * kTinyBlockSize, 1);
  turn.ignore_eos = true;
  const Generated first = Generate(*warm, turn);
  ExpectSameBits(Generate(*cold, turn), first, "first turn");
  turn.prompt.insert(turn.prompt.end(), first.tokens.begin(), first.tokens.end());
  turn.prompt.push_back(7);
  const Generated second = Generate(*warm, turn);
  ExpectSameBits(Generate(*cold, turn), second, "second turn");
  EXPECT_EQ(second.usage.cached_tokens, 3 * kTinyBlockSize);
}

class BatchInvarianceOnRealModel : public RealModelFixture {
 protected:
  void SetUp() override {
    RealModelFixture::SetUp();
    if (model_path_.empty()) return;
    options_.model_path = model_path_;
    options_.backend = {.max_isa = TestMaxIsa(), .batch_invariant = true};
    options_.kv_cache_tokens = 4096;
    options_.stalled_reader_timeout = absl::InfiniteDuration();  // streams are read in turn
    options_.scheduler.block_size = 16;
    options_.scheduler.prefix_cache = false;
    solo_ = Create(nullptr);
    ASSERT_NE(solo_, nullptr);
    for (int i = 0; i < 8; ++i) {
      // 9 to 265 tokens: prompts of few rows, and of more than the panels' own limit.
      requests_.push_back(TinyRequest(40000, 9 + i * i * 5 + i, 16, i));
      requests_.back().ignore_eos = true;
      alone_.push_back(Generate(*solo_, requests_.back()));
    }
  }

  std::unique_ptr<Engine> Create(EngineObserver* observer) const {
    auto engine = Engine::Create(options_, observer, LoadProgress());
    EXPECT_TRUE(engine.ok()) << engine.status();
    return engine.ok() ? *std::move(engine) : nullptr;
  }

  // All requests at once have the bits that each had alone.
  void ExpectAllSame(Engine& engine, const std::string& what) const {
    std::vector<std::unique_ptr<RequestHandle>> handles;
    for (const GenerationRequest& request : requests_) {
      handles.push_back(MustSubmit(engine, request));
    }
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      ExpectSameBits(alone_[i], Collect(*handles[i]), what + ", request " + std::to_string(i));
    }
  }

  EngineOptions options_;
  std::unique_ptr<Engine> solo_;
  std::vector<GenerationRequest> requests_;
  std::vector<Generated> alone_;
};

TEST_F(BatchInvarianceOnRealModel, NothingAroundARequestChangesABit) {
  ExpectAllSame(*solo_, "crowd");
  solo_.reset();

  options_.scheduler.max_prefill_chunk = 13;
  options_.scheduler.prefix_cache = true;
  {
    const auto engine = Create(nullptr);
    ASSERT_NE(engine, nullptr);
    ExpectAllSame(*engine, "chunked");
    const Generated again = Generate(*engine, requests_[7]);
    ExpectSameBits(alone_[7], again, "prefix hit");
    EXPECT_GT(again.usage.cached_tokens, 200);
  }

  // Room for the longest and little more: the others are put back, and run again.
  CountingObserver observer;
  options_.scheduler.max_prefill_chunk = 0;
  options_.scheduler.admission = Admission::kEager;
  options_.kv_cache_tokens = 384;
  const auto tight = Create(&observer);
  ASSERT_NE(tight, nullptr);
  ExpectAllSame(*tight, "preempted");
  EXPECT_GT(observer.num_preemptions.load(), 0);
}

}  // namespace
}  // namespace thresher::testing
