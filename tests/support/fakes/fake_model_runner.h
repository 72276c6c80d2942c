// A runner without a model. Its "KV cache" holds, for each slot, a hash of all tokens up to there,
// and its next token is a function of that hash: any wrong block, slot, position or token shows in
// the text. Takes a fixed time for each step.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "engine/runner/model_runner.h"

namespace thresher {

struct FakeModelRunnerOptions {
  int num_blocks = 0;
  int block_size = 64;
  int vocab_size = 1000;
  TokenId first_token = 3;  // tokens drawn are first_token … vocab_size − 1
  absl::Duration step_time;
  std::optional<std::int64_t> failing_step;  // counted from 0: its Wait and all later ones fail
  // Overrides the token drawn; `position` counts from the prompt's first token.
  // A negative token makes a sample that is not valid.
  std::function<TokenId(const SequenceStart& sequence, int position, TokenId drawn)> draw;
  const char* bad_field = nullptr;  // of the samples that are not valid
  TokenId bad_prompt_token = -1;    // whose score is not valid
};

// What the fake draws after `tokens`: greedy when the temperature is 0, else by seed and choice.
TokenId FakeNextToken(const FakeModelRunnerOptions& options, const std::vector<TokenId>& tokens,
                      const GenerationRequest& request, int choice_index);

class FakeModelRunner final : public ModelRunner {
 public:
  explicit FakeModelRunner(const FakeModelRunnerOptions& options);

  StepTicket Launch(const StepInput& input, StepOutput& output) override;
  absl::Status Wait(StepTicket ticket) override;

  // From any thread. Once held, each Wait takes one of the steps allowed since, or blocks.
  void Hold();
  void AllowSteps(int steps);
  void Release();
  // Blocks until the engine waits for a step that was not allowed.
  void AwaitHeldWait();

  std::int64_t num_launched() const;
  std::int64_t num_open_sequences() const;

 private:
  struct Sequence {
    SequenceStart start;
    TokenId last_token = 0;
  };
  void RunSequence(const StepPlan& plan, int index, StepOutput& output);
  SampledToken Draw(const Sequence& sequence, std::uint64_t hash, int position) const;

  const FakeModelRunnerOptions options_;
  std::vector<std::uint64_t> slots_;  // hash of the tokens up to and with the slot's
  absl::flat_hash_map<RequestId, Sequence> sequences_;
  absl::Time ready_times_[2];  // by ticket modulo 2
  absl::Time last_ready_ = absl::InfinitePast();
  std::int64_t next_ticket_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false, waits_held_ = false;
  int steps_allowed_ = 0;
  std::int64_t num_launched_ = 0, num_sequences_ = 0;
};

}  // namespace thresher
