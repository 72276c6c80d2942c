#include "tests/support/fakes/fake_engine.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "tests/support/fakes/fake_tokenizer.h"

namespace thresher {

FakeEngine::FakeEngine(FakeEngineOptions options, EngineObserver* observer,
                       const FakeClock* clock) {
  if (options.scheduler.num_blocks == 0) options.scheduler.num_blocks = 64;
  runner_options = options.runner;
  runner_options.num_blocks = options.scheduler.num_blocks;
  runner_options.block_size = options.scheduler.block_size;
  auto fake_runner = std::make_unique<FakeModelRunner>(runner_options);
  runner = fake_runner.get();
  EngineParts parts;
  parts.runner = std::move(fake_runner);
  parts.tokenizer = std::make_unique<FakeTokenizer>(runner_options.vocab_size);
  parts.model_config.family = "fake";
  parts.model_config.vocab_size = runner_options.vocab_size;
  parts.generation_defaults.end_tokens = options.end_tokens;
  parts.max_model_len = options.max_model_len;
  parts.scheduler = options.scheduler;
  parts.stream_capacity = options.stream_capacity;
  parts.stalled_reader_timeout = options.stalled_reader_timeout;
  if (clock != nullptr) parts.clock = [clock] { return clock->Now(); };
  absl::StatusOr<std::unique_ptr<Engine>> created = CreateEngine(std::move(parts), observer);
  EXPECT_TRUE(created.ok()) << created.status();
  engine = *std::move(created);
}

void CountingObserver::OnStep(const StepReport& report) {
  ++num_steps;
  num_preemptions = report.num_preemptions;
}

void CountingObserver::OnRequestEnd(const RequestReport& report) {
  ++num_ended[static_cast<int>(report.outcome)];
}

GenerationRequest Request(int prompt_length, int max_tokens, TokenId first) {
  GenerationRequest request;
  for (int i = 0; i < prompt_length; ++i) request.prompt.push_back(first + i % 90);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

std::unique_ptr<RequestHandle> MustSubmit(Engine& engine, GenerationRequest request,
                                          StreamListener* listener, std::uint64_t tag) {
  auto handle = engine.Submit(std::move(request), listener, tag);
  EXPECT_TRUE(handle.ok()) << handle.status();
  return *std::move(handle);
}

void ExpectClean(Engine& engine) {
  EXPECT_EQ(TokensOf(ReadAll(*MustSubmit(engine, Request(70, 4, 8))), 0).size(), 4u);
  while (engine.load().running > 0 || engine.load().kv_usage > 0) std::this_thread::yield();
  EXPECT_EQ(engine.load().waiting, 0);
  EXPECT_EQ(engine.health(), EngineHealth::kServing);
}

std::vector<TokenEvent> ReadAll(RequestHandle& handle) {
  std::vector<TokenEvent> events;
  while (handle.Poll(events)) handle.Wait(absl::InfiniteDuration());
  return events;
}

std::vector<TokenId> TokensOf(const std::vector<TokenEvent>& events, int choice) {
  std::vector<TokenId> tokens;
  for (const TokenEvent& event : events) {
    if (event.choice == choice && event.token.has_value()) tokens.push_back(*event.token);
  }
  return tokens;
}

TokenEvent LastOf(const std::vector<TokenEvent>& events, int choice) {
  TokenEvent last;
  int num_finishes = 0;
  for (const TokenEvent& event : events) {
    if (event.choice != choice) continue;
    EXPECT_EQ(num_finishes, 0) << "an event follows the choice's last";
    num_finishes += event.finish.has_value();
    last = event;
  }
  EXPECT_EQ(num_finishes, 1);
  return last;
}

}  // namespace thresher
