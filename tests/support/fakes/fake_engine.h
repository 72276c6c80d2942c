// The real engine over the fake runner, and what tests keep asking of it.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "engine/engine_parts.h"
#include "tests/support/fakes/fake_model_runner.h"

namespace thresher {

struct FakeEngineOptions {
  FakeModelRunnerOptions runner;  // num_blocks and block_size come from the scheduler's
  SchedulerOptions scheduler;     // num_blocks 0: 64
  int max_model_len = 512;
  std::vector<TokenId> end_tokens;
  int stream_capacity = 1 << 16;
  absl::Duration stalled_reader_timeout = absl::Seconds(30);
};

// A clock that stands still until a test moves it. Any thread.
class FakeClock final {
 public:
  absl::Time Now() const { return absl::FromUnixNanos(now_ns_.load()); }
  void Advance(absl::Duration by) { now_ns_ += absl::ToInt64Nanoseconds(by); }

 private:
  std::atomic<std::int64_t> now_ns_{1'000'000'000'000'000'000};
};

struct FakeEngine {
  // The clock may be null: real time.
  explicit FakeEngine(FakeEngineOptions options, EngineObserver* observer = nullptr,
                      const FakeClock* clock = nullptr);

  FakeModelRunnerOptions runner_options;
  std::unique_ptr<Engine> engine;
  FakeModelRunner* runner = nullptr;  // owned by the engine
};

// Counts what the engine reports.
struct CountingObserver final : EngineObserver {
  void OnStep(const StepReport& report) override;
  void OnInterToken(absl::Duration) override { ++num_inter_token; }
  void OnRequestEnd(const RequestReport& report) override;
  int Ended(RequestOutcome outcome) const { return num_ended[static_cast<int>(outcome)]; }

  std::atomic<std::int64_t> num_steps = 0, num_inter_token = 0, num_preemptions = 0;
  std::atomic<int> num_ended[6] = {};  // by RequestOutcome
};

// A greedy request; the prompt's tokens count up from `first`, at most 90 different ones.
GenerationRequest Request(int prompt_length, int max_tokens, TokenId first = 5);
// Fails the test if the engine refuses.
std::unique_ptr<RequestHandle> MustSubmit(Engine& engine, GenerationRequest request,
                                          StreamListener* listener = nullptr,
                                          std::uint64_t tag = 0);
// The engine has nothing left of what ran before: a fresh request works, and no block is owned.
void ExpectClean(Engine& engine);

// All events of a request, in order. Blocks until its end.
std::vector<TokenEvent> ReadAll(RequestHandle& handle);
// The tokens of one choice.
std::vector<TokenId> TokensOf(const std::vector<TokenEvent>& events, int choice);
// The choice's event with a finish reason; fails the test if there is not exactly one.
TokenEvent LastOf(const std::vector<TokenEvent>& events, int choice);

}  // namespace thresher
