// A step in steady state allocates nothing: not in the loop, the scheduler, the streams or the
// readers, nor in the building of a batch, nor on the model. Replaces the global operator new of
// this test binary by one that counts.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/runner/rank_runner.h"
#include "engine/runner/step_batch.h"
#include "tests/support/fakes/fake_engine.h"
#include "tests/support/logits_golden.h"
#include "tests/support/test_environment.h"
#include "tests/support/tiny_thresholds.h"

namespace {

std::atomic<long> num_allocations{0};

void* CountedAlloc(std::size_t size, std::size_t alignment) {
  ++num_allocations;
  size = (size + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, size == 0 ? alignment : size)) return memory;
  std::abort();
}

}  // namespace

// Not inlined, or GCC sees free() meet what came from operator new, and warns.
[[gnu::noinline]] void* operator new(std::size_t size) {
  return CountedAlloc(size, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new[](std::size_t size) {
  return CountedAlloc(size, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return CountedAlloc(size, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return CountedAlloc(size, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return CountedAlloc(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new[](std::size_t size, std::align_val_t alignment) {
  return CountedAlloc(size, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace thresher {
namespace {

struct QuietListener final : StreamListener {
  void OnEventsReady(std::span<const std::uint64_t> tags) override { num_tags += tags.size(); }
  std::atomic<std::size_t> num_tags = 0;
};

TEST(EngineAllocation, DecodingAllocatesNothing) {
  CountingObserver observer;
  QuietListener listener;
  FakeEngine fake({}, &observer);
  fake.runner->Hold();
  std::vector<std::unique_ptr<RequestHandle>> handles;
  for (int i = 0; i < 16; ++i) {
    handles.push_back(MustSubmit(*fake.engine, Request(10 + i, 200), &listener, i));
  }
  std::vector<TokenEvent> events;
  const auto run_steps = [&](int steps) {
    std::size_t num_events = 0;
    for (int i = 0; i < steps; ++i) {
      fake.runner->AllowSteps(1);
      fake.runner->AwaitHeldWait();
      for (const auto& handle : handles) {
        events.clear();
        EXPECT_TRUE(handle->Poll(events));
        num_events += events.size();
      }
    }
    return num_events;
  };
  run_steps(60);
  const long before = num_allocations;
  EXPECT_EQ(run_steps(100), 1600u);
  EXPECT_EQ(num_allocations - before, 0);
  EXPECT_GE(listener.num_tags.load(), 1600u);
  fake.runner->Release();
}

TEST(EngineAllocation, BuildingABatchAllocatesNothing) {
  StepPlan plan;
  for (int i = 0; i < 8; ++i) {
    plan.sequences.push_back({RequestId{i}, 3 * i, 4, true, 4 * i, 2 * i, 2});
    for (int j = 0; j < 4; ++j) plan.tokens.push_back(j);
    plan.block_table.insert(plan.block_table.end(), {BlockId{i}, BlockId{i + 8}});
  }
  const std::vector<TokenId> last_tokens(8, 1);
  StepBatch batch(/*block_size=*/16, /*max_tokens=*/32, /*max_sequences=*/8);
  const long before = num_allocations;
  batch.Build(plan, last_tokens);
  EXPECT_EQ(num_allocations - before, 0);
  EXPECT_EQ(batch.inputs().num_tokens(), 32);
}

// A rank on a model, and four sequences of every kind of sampling.
class RankOnModel {
 public:
  static constexpr int kBlocksEach = 8, kBlockSize = 16, kSequences = 4;

  RankOnModel(const std::string& path, BackendOptions options,
              std::unique_ptr<const AttentionCatalog> catalog =
                  AttentionCatalog::Create({}, nullptr).value(),
              const AttentionChoice& attention = {})
      : group_(CreateInProcessGroup(1)),
        catalog_(std::move(catalog)),
        output_{.samples = {}, .prompt_scores = {}, .attention = {{}}} {
    options.num_threads = 2;
    options.max_isa = testing::TestMaxIsa();
    files_ = ModelFiles::Open(path).value();
    backend_ = CreateBackend(DeviceKind::kCpu, 0, options).value();
    backend_->BindThread();
    runner_ = RankRunner::Create(*files_, *backend_, *group_[0],
                                 {.num_blocks = kSequences * kBlocksEach,
                                  .block_size = kBlockSize,
                                  .max_tokens = 256,
                                  .max_sequences = kSequences,
                                  .max_position = kBlocksEach * kBlockSize,
                                  .batch_invariant = options.batch_invariant,
                                  .attention = catalog_.get()},
                                 LoadProgress())
                  .value();
    SamplingParams kinds[kSequences] = {{.temperature = 0, .logprobs = 5},
                                        {.temperature = 1, .top_p = 0.9, .logprobs = 2},
                                        {.temperature = 1, .top_k = 7, .min_p = 0.01},
                                        {.temperature = 1,
                                         .repetition_penalty = 1.1,
                                         .frequency_penalty = 0.5,
                                         .logit_bias = {{5, 1.0f}},
                                         .prompt_logprobs = 3}};
    for (int i = 0; i < kSequences; ++i) {
      auto request = std::make_shared<GenerationRequest>();
      for (int j = 0; j < kPromptLength; ++j) request->prompt.push_back(3 + (7 * i + 3 * j) % 60);
      kinds[i].seed = i;
      request->sampling = kinds[i];
      request->attention = attention;
      step_.started.push_back({RequestId{i}, 0, kinds[i].prompt_logprobs.has_value(), request,
                               PrepareSampling(*request, files_->config().vocab_size)});
    }
  }

  // The sequences' rows from `context` on.
  void Run(int context, int query_length) {
    StepPlan& plan = step_.plan;
    plan.sequences.clear();
    plan.tokens.clear();
    plan.block_table.clear();
    for (int i = 0; i < kSequences; ++i) {
      const int num_blocks = (context + query_length + kBlockSize - 1) / kBlockSize;
      const bool samples = context + query_length >= kPromptLength;
      plan.sequences.push_back({RequestId{i}, context, query_length, samples, i * query_length,
                                i * num_blocks, num_blocks});
      for (int j = 0; j < query_length; ++j) plan.tokens.push_back(3 + (context + j + i) % 60);
      for (int b = 0; b < num_blocks; ++b) {
        plan.block_table.push_back(BlockId{i * kBlocksEach + b});
      }
    }
    plan.num_tokens = kSequences * query_length;
    plan.num_samples = context + query_length >= kPromptLength ? kSequences : 0;
    absl::Status status = runner_->QueueStep(step_, output_);
    if (status.ok()) status = runner_->FinishStep();
    EXPECT_TRUE(status.ok()) << status;
    step_.started.clear();
  }

  // Allocations of the last of several runs of a prompt in chunks of so many rows.
  long PrefillAllocations(int chunk) {
    long before = 0;
    for (int run = 0; run < 3; ++run) {
      before = num_allocations;
      for (int context = 0; context < kPromptLength; context += chunk) Run(context, chunk);
    }
    return num_allocations - before;
  }

  long DecodeAllocations() {
    long before = 0;
    for (int position = kPromptLength; position < kPromptLength + 40; ++position) {
      if (position == kPromptLength + 20) before = num_allocations;
      Run(position, 1);
    }
    EXPECT_EQ(output_.samples.size(), static_cast<std::size_t>(kSequences));
    return num_allocations - before;
  }

  static constexpr int kPromptLength = 64;

 private:
  std::vector<std::unique_ptr<TensorParallelGroup>> group_;
  std::unique_ptr<const AttentionCatalog> catalog_;
  std::unique_ptr<ModelFiles> files_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<RankRunner> runner_;
  StepInput step_;
  StepOutput output_;
};

TEST(EngineAllocation, AStepOnTheModelAllocatesNothing) {
  const std::string path = testing::GoldenPath("models/qwen2_q8.gguf");
  for (const BackendOptions& options :
       {BackendOptions{.full_precision = true},
        BackendOptions{.full_precision = true, .batch_invariant = true},
        BackendOptions{.batch_invariant = true}}) {
    RankOnModel rank(path, options);
    EXPECT_EQ(rank.PrefillAllocations(8), 0);
    EXPECT_EQ(rank.PrefillAllocations(32), 0);
    EXPECT_EQ(rank.DecodeAllocations(), 0);
  }
}

TEST(EngineAllocation, AStepOnTheRealModelAllocatesNothing) {
  const std::optional<std::string> path = testing::RealModelPath();
  if (!path.has_value()) {
    ASSERT_FALSE(testing::RealModelIsRequired());
    GTEST_SKIP() << "the model is not there";
  }
  // All its weights are blocks of 4 or 8 bits, which stay panels up to 32 rows; more rows, and bf16
  // weights, meet oneDNN, which keeps books of its own during a call.
  RankOnModel rank(*path, {});
  EXPECT_EQ(rank.PrefillAllocations(8), 0);
  EXPECT_EQ(rank.DecodeAllocations(), 0);
}

// Prompts under lists of blocks, decoding above thresholds, and dense attention to compare it with.
TEST(EngineAllocation, ASparseStepOnTheModelAllocatesNothing) {
  const ThresholdContents contents = testing::TinyThresholds();
  for (const int shadow_interval : {0, 1}) {
    AttentionSettings settings;
    settings.top_theta.layers = {};
    settings.block_lists.dense_layers = {};
    settings.block_lists.schedule.dense_below = 1;
    settings.shadow_interval = shadow_interval;
    auto catalog =
        AttentionCatalog::Create(settings, ThresholdTable::Create(contents).value()).value();
    const AttentionChoice choice{
        .level = "custom", .prefill = {"stem", {}}, .decode = {"top_theta", {{"k", 4}}}};
    RankOnModel rank(testing::GoldenPath("models/llama31"), {.full_precision = true},
                     std::move(catalog), choice);
    EXPECT_EQ(rank.PrefillAllocations(32), 0);
    EXPECT_EQ(rank.DecodeAllocations(), 0);
  }
}

}  // namespace
}  // namespace thresher
