#include "tests/support/fakes/fake_model_runner.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace thresher {
namespace {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t Mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A plan that contradicts itself is the engine's bug: no test goes on after it.
void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fake runner: %s\n", what);
  std::abort();
}

TokenId TokenOf(const FakeModelRunnerOptions& options, std::uint64_t hash,
                const GenerationRequest& request, int choice_index, int position) {
  std::uint64_t drawn = hash;
  if (request.sampling.temperature > 0) {
    drawn = Mix(Mix(hash, *request.sampling.seed), static_cast<std::uint64_t>(choice_index) << 32 |
                                                       static_cast<std::uint64_t>(position));
  }
  const auto range = static_cast<std::uint64_t>(options.vocab_size - options.first_token);
  return options.first_token + static_cast<TokenId>(drawn % range);
}

}  // namespace

TokenId FakeNextToken(const FakeModelRunnerOptions& options, const std::vector<TokenId>& tokens,
                      const GenerationRequest& request, int choice_index) {
  std::uint64_t hash = 0;
  for (const TokenId token : tokens) hash = Mix(hash, static_cast<std::uint64_t>(token));
  return TokenOf(options, hash, request, choice_index, static_cast<int>(tokens.size()));
}

FakeModelRunner::FakeModelRunner(const FakeModelRunnerOptions& options)
    : options_(options),
      slots_(static_cast<std::size_t>(options.num_blocks) * options.block_size) {}

StepTicket FakeModelRunner::Launch(const StepInput& input, StepOutput& output) {
  for (const SequenceStart& start : input.started) {
    Require(sequences_.try_emplace(start.id, Sequence{start, 0}).second, "sequence started twice");
  }
  for (const RequestId id : input.ended) {
    Require(sequences_.erase(id) == 1, "an unknown sequence ended");
  }
  output.samples.clear();
  output.prompt_scores.clear();
  int num_tokens = 0;
  for (int i = 0; i < static_cast<int>(input.plan.sequences.size()); ++i) {
    RunSequence(input.plan, i, output);
    num_tokens += input.plan.sequences[i].query_length;
  }
  Require(num_tokens == input.plan.num_tokens, "num_tokens is not the sum of query lengths");
  Require(static_cast<int>(output.samples.size()) == input.plan.num_samples,
          "num_samples is not the number of sampling sequences");
  last_ready_ = std::max(last_ready_, absl::Now()) + options_.step_time;
  ready_times_[next_ticket_ % 2] = last_ready_;
  const std::lock_guard<std::mutex> lock(mutex_);
  ++num_launched_;
  num_sequences_ = static_cast<std::int64_t>(sequences_.size());
  return StepTicket{next_ticket_++};
}

void FakeModelRunner::RunSequence(const StepPlan& plan, int index, StepOutput& output) {
  const ScheduledSequence& scheduled = plan.sequences[index];
  const auto found = sequences_.find(scheduled.id);
  Require(found != sequences_.end(), "a plan names a sequence that has not started or has ended");
  Sequence& sequence = found->second;
  const std::vector<TokenId>& prompt = sequence.start.request->prompt;
  const std::span<const BlockId> blocks = plan.BlocksOf(scheduled);
  const auto slot = [&](int position) -> std::uint64_t& {
    const auto block = static_cast<std::size_t>(position / options_.block_size);
    Require(block < blocks.size(), "the block table is too short");
    return slots_.at(static_cast<std::size_t>(blocks[block]) * options_.block_size +
                     position % options_.block_size);
  };
  std::uint64_t hash = scheduled.context_length > 0 ? slot(scheduled.context_length - 1) : 0;
  int position = scheduled.context_length;
  for (TokenId token : plan.TokensOf(scheduled)) {
    if (token == kPendingToken) token = sequence.last_token;
    if (position < static_cast<int>(prompt.size())) {
      Require(token == prompt[position], "the plan's token is not the prompt's");
    }
    hash = Mix(hash, static_cast<std::uint64_t>(token));
    slot(position) = hash;
    ++position;
    if (sequence.start.scores_prompt && position < static_cast<int>(prompt.size())) {
      SampledToken score;
      score.token = prompt[position];
      score.logprob = -1.0f - static_cast<float>(hash % 100) / 100;
      score.rank = 1;
      score.valid = score.token != options_.bad_prompt_token;
      output.prompt_scores.push_back({index, position, score});
    }
  }
  if (!scheduled.samples) return;
  const SampledToken sample = Draw(sequence, hash, position);
  sequence.last_token = sample.token;
  output.samples.push_back(sample);
}

SampledToken FakeModelRunner::Draw(const Sequence& sequence, std::uint64_t hash,
                                   int position) const {
  const GenerationRequest& request = *sequence.start.request;
  SampledToken sample;
  sample.token = TokenOf(options_, hash, request, sequence.start.choice_index, position);
  if (options_.draw) sample.token = options_.draw(sequence.start, position, sample.token);
  sample.valid = sample.token >= 0;
  if (!sample.valid) sample.bad_field = options_.bad_field;
  sample.rank = 1;
  sample.logprob = -0.5f;
  sample.num_top = std::max(0, request.sampling.logprobs.value_or(0));
  for (int i = 0; i < sample.num_top; ++i) {
    sample.top[i] = {(sample.token + i) % options_.vocab_size, -0.5f - static_cast<float>(i)};
  }
  return sample;
}

absl::Status FakeModelRunner::Wait(StepTicket ticket) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    waits_held_ = held_ && steps_allowed_ == 0;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !held_ || steps_allowed_ > 0; });
    waits_held_ = false;
    if (held_) --steps_allowed_;
  }
  const absl::Duration left = ready_times_[static_cast<std::int64_t>(ticket) % 2] - absl::Now();
  if (left > absl::ZeroDuration()) std::this_thread::sleep_for(absl::ToChronoNanoseconds(left));
  if (options_.failing_step.has_value() &&
      static_cast<std::int64_t>(ticket) >= *options_.failing_step) {
    return absl::InternalError("the fake runner fails at this step");
  }
  return absl::OkStatus();
}

void FakeModelRunner::Hold() {
  const std::lock_guard<std::mutex> lock(mutex_);
  held_ = true;
}

void FakeModelRunner::AllowSteps(int steps) {
  const std::lock_guard<std::mutex> lock(mutex_);
  steps_allowed_ += steps;
  changed_.notify_all();
}

void FakeModelRunner::Release() {
  const std::lock_guard<std::mutex> lock(mutex_);
  held_ = false;
  changed_.notify_all();
}

void FakeModelRunner::AwaitHeldWait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return waits_held_ && steps_allowed_ == 0; });
}

std::int64_t FakeModelRunner::num_launched() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return num_launched_;
}

std::int64_t FakeModelRunner::num_open_sequences() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return num_sequences_;
}

}  // namespace thresher
