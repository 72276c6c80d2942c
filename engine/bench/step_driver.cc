#include "engine/bench/step_driver.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/bench/bench_clock.h"
#include "engine/runner/sequence_sampler.h"

namespace thresher {
namespace {

using Clock = BenchClock;

int CeilDivide(int value, int divisor) { return (value + divisor - 1) / divisor; }

// How many tokens a prompt has that fills part of the cache: long enough for products at full
// speed, short enough that attention costs nothing beside them.
constexpr int kFillTokens = 512;

}  // namespace

StepDriver::StepDriver(ModelRunner& runner, const StepDriverOptions& options)
    : runner_(runner), options_(options) {
  for (int i = 0; i < options.num_blocks; ++i) blocks_.push_back(BlockId{i});
  std::shuffle(blocks_.begin(), blocks_.end(), std::mt19937_64(7));
}

TokenId StepDriver::RandomToken() {
  random_ = random_ * 1664525u + 1013904223u;
  return static_cast<TokenId>((random_ >> 8) % static_cast<std::uint32_t>(options_.vocab_size));
}

void StepDriver::StartSequences(int count, const std::vector<TokenId>& prompt) {
  auto request = std::make_shared<GenerationRequest>();
  request->prompt = prompt;
  request->ignore_eos = true;
  request->sampling.temperature = 0;
  request->sampling.seed = 1;
  const std::shared_ptr<const PreparedSampling> sampling = PrepareSampling(*request, 1);
  ending_.insert(ending_.end(), open_.begin(), open_.end());
  open_.clear();
  for (int i = 0; i < count; ++i) {
    open_.push_back(RequestId{next_id_++});
    starting_.push_back({.id = open_.back(),
                         .choice_index = 0,
                         .scores_prompt = false,
                         .request = request,
                         .sampling = sampling});
  }
}

StepInput& StepDriver::NextInput() {
  StepInput& input = slots_[next_slot_].input;
  input.plan.sequences.clear();
  input.plan.tokens.clear();
  input.plan.block_table.clear();
  input.plan.num_tokens = input.plan.num_samples = 0;
  input.started = std::exchange(starting_, {});
  input.ended = std::exchange(ending_, {});
  return input;
}

void StepDriver::Schedule(StepInput& input, int sequence, int context,
                          std::span<const TokenId> tokens, bool samples, int first_block,
                          int num_blocks) {
  StepPlan& plan = input.plan;
  plan.sequences.push_back({.id = open_[static_cast<std::size_t>(sequence)],
                            .context_length = context,
                            .query_length = static_cast<int>(tokens.size()),
                            .samples = samples,
                            .first_token = static_cast<int>(plan.tokens.size()),
                            .first_block = static_cast<int>(plan.block_table.size()),
                            .num_blocks = num_blocks});
  plan.tokens.insert(plan.tokens.end(), tokens.begin(), tokens.end());
  const auto blocks = blocks_.begin() + first_block;
  plan.block_table.insert(plan.block_table.end(), blocks, blocks + num_blocks);
  plan.num_tokens += static_cast<int>(tokens.size());
  plan.num_samples += samples ? 1 : 0;
}

absl::Status StepDriver::Launch(DrivenRun& run) {
  Slot& slot = slots_[next_slot_];
  slot.ticket = runner_.Launch(slot.input, slot.output);
  slot.in_flight = true;
  next_slot_ = 1 - next_slot_;
  return WaitFor(slots_[next_slot_], run);
}

absl::Status StepDriver::WaitFor(Slot& slot, DrivenRun& run) {
  if (!slot.in_flight) return absl::OkStatus();
  slot.in_flight = false;
  if (absl::Status status = runner_.Wait(slot.ticket); !status.ok()) return status;
  const Clock::time_point now = Clock::now();
  run.step_seconds.push_back(SecondsBetween(last_result_, now));
  last_result_ = now;
  for (const SampledToken& sample : slot.output.samples) {
    run.tokens.push_back(sample.token);
    run.all_valid = run.all_valid && sample.valid;
  }
  return absl::OkStatus();
}

absl::Status StepDriver::Finish(DrivenRun& run) { return WaitFor(slots_[1 - next_slot_], run); }

absl::Status StepDriver::FillCache() {
  const int block_size = options_.block_size;
  // Whole blocks, unless no sequence fills even one: then slots beyond its length are never read.
  const int most_tokens =
      std::min({kFillTokens, options_.token_budget, options_.max_sequence_length});
  const int blocks_each = std::max(1, most_tokens / block_size);
  const int tokens_each = std::min(blocks_each * block_size, most_tokens);
  const int most_prompts = std::max(1, options_.token_budget / tokens_each);
  DrivenRun run;
  last_result_ = Clock::now();
  for (int first = 0; first < options_.num_blocks;) {
    const int left = CeilDivide(options_.num_blocks - first, blocks_each);
    const int count = std::min(most_prompts, left);
    StartSequences(count, std::vector<TokenId>(static_cast<std::size_t>(tokens_each)));
    StepInput& input = NextInput();
    for (int i = 0; i < count && first < options_.num_blocks; ++i) {
      const int blocks = std::min(blocks_each, options_.num_blocks - first);
      std::vector<TokenId> tokens(
          static_cast<std::size_t>(std::min(tokens_each, blocks * block_size)));
      for (TokenId& token : tokens) token = RandomToken();
      Schedule(input, i, 0, tokens, false, first, blocks);
      first += blocks;
    }
    if (absl::Status status = Launch(run); !status.ok()) return status;
  }
  return Finish(run);
}

absl::StatusOr<DrivenRun> StepDriver::Decode(int batch, int context, int steps) {
  const int blocks_each = CeilDivide(context + steps, options_.block_size);
  if (std::int64_t{batch} * blocks_each > options_.num_blocks) {
    return absl::InvalidArgumentError(absl::StrCat(
        batch, " sequences of ", context + steps, " tokens need ",
        std::int64_t{batch} * blocks_each, " blocks; the cache has ", options_.num_blocks));
  }
  // A row past the prompt is one that decodes.
  StartSequences(batch, std::vector<TokenId>(static_cast<std::size_t>(context)));
  DrivenRun run;
  const double cpu_start = ProcessorSeconds();
  const Clock::time_point start = last_result_ = Clock::now();
  for (int step = 0; step < steps; ++step) {
    StepInput& input = NextInput();
    for (int i = 0; i < batch; ++i) {
      const TokenId token = step == 0 ? (i * 131 + 7) % options_.vocab_size : kPendingToken;
      Schedule(input, i, context + step, {&token, 1}, true, i * blocks_each,
               CeilDivide(context + step + 1, options_.block_size));
    }
    if (absl::Status status = Launch(run); !status.ok()) return status;
  }
  if (absl::Status status = Finish(run); !status.ok()) return status;
  run.seconds = SecondsBetween(start, Clock::now());
  run.cpu_seconds = ProcessorSeconds() - cpu_start;
  return run;
}

absl::StatusOr<DrivenRun> StepDriver::Prefill(int prompt_tokens) {
  const int num_blocks = CeilDivide(prompt_tokens, options_.block_size);
  if (num_blocks > options_.num_blocks) {
    return absl::InvalidArgumentError(absl::StrCat("a prompt of ", prompt_tokens, " tokens needs ",
                                                   num_blocks, " blocks; the cache has ",
                                                   options_.num_blocks));
  }
  random_ = 1;  // the same prompt every time
  std::vector<TokenId> prompt(static_cast<std::size_t>(prompt_tokens));
  for (TokenId& token : prompt) token = RandomToken();
  StartSequences(1, prompt);
  DrivenRun run;
  const double cpu_start = ProcessorSeconds();
  const Clock::time_point start = last_result_ = Clock::now();
  for (int done = 0; done < prompt_tokens;) {
    const int count = std::min(options_.token_budget, prompt_tokens - done);
    const bool is_last = done + count == prompt_tokens;
    Schedule(
        NextInput(), 0, done,
        std::span(prompt).subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(count)),
        is_last, 0, CeilDivide(done + count, options_.block_size));
    done += count;
    if (absl::Status status = Launch(run); !status.ok()) return status;
  }
  if (absl::Status status = Finish(run); !status.ok()) return status;
  run.seconds = SecondsBetween(start, Clock::now());
  run.cpu_seconds = ProcessorSeconds() - cpu_start;
  return run;
}

}  // namespace thresher
