// Runs a model runner by hand: decode steps at a given context, and prompts, without a scheduler,
// an engine thread or a front end between the steps.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/runner/model_runner.h"

namespace thresher {

struct StepDriverOptions {
  int num_blocks = 0;  // of the runner's cache
  int block_size = 0;
  int token_budget = 0;         // query rows of a step
  int max_sequence_length = 0;  // tokens that the runner takes of a sequence
  int vocab_size = 0;
};

// What a run of steps gave.
struct DrivenRun {
  std::vector<double> step_seconds;  // from one step's result to the next one's
  double seconds = 0;                // from the first launch to the last result
  double cpu_seconds = 0;            // that all threads of the process took meanwhile
  std::vector<TokenId> tokens;       // drawn, step by step, sequence by sequence
  bool all_valid = true;             // every row of logits could be drawn from
};

// One thread. The runner outlives the driver. Keeps two steps in flight, as the engine does, and
// scatters sequences over the cache's blocks in a fixed order, as a served cache ends up.
class StepDriver final {
 public:
  StepDriver(ModelRunner& runner, const StepDriverOptions& options);

  // Writes keys and values of random tokens into every block: prompts of one step each, so the
  // cost is that of the model's products. Afterwards decode runs find numbers wherever they look.
  // The token budget is a block at least.
  absl::Status FillCache();
  // `steps` greedy decode steps of `batch` sequences, the first with `context` tokens cached, each
  // step one more; they are blocks that FillCache has written. InvalidArgument if the cache has too
  // few blocks.
  absl::StatusOr<DrivenRun> Decode(int batch, int context, int steps);
  // One prompt of so many tokens in chunks of the token budget; one token is drawn.
  absl::StatusOr<DrivenRun> Prefill(int prompt_tokens);

 private:
  struct Slot {
    StepInput input;
    StepOutput output;
    StepTicket ticket{};
    bool in_flight = false;
  };

  // Begins sequences with prompts of that length in the next plan, and ends all before them.
  void StartSequences(int count, const std::vector<TokenId>& prompt);
  // The next plan to be filled in; free, and empty but for what StartSequences asked for.
  StepInput& NextInput();
  // One more row of the plan.
  void Schedule(StepInput& input, int sequence, int context, std::span<const TokenId> tokens,
                bool samples, int first_block, int num_blocks);
  // Launches it, then waits for the step before.
  absl::Status Launch(DrivenRun& run);
  absl::Status Finish(DrivenRun& run);
  absl::Status WaitFor(Slot& slot, DrivenRun& run);
  TokenId RandomToken();

  ModelRunner& runner_;
  const StepDriverOptions options_;
  std::vector<BlockId> blocks_;  // in the order in which sequences take them
  Slot slots_[2];
  int next_slot_ = 0;
  std::int64_t next_id_ = 1;
  std::vector<RequestId> open_;
  std::vector<SequenceStart> starting_;
  std::vector<RequestId> ending_;
  std::uint32_t random_ = 1;
  std::chrono::steady_clock::time_point last_result_;
};

}  // namespace thresher
