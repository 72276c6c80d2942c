// What goes wrong in a rank: at loading, and in a step. That steps are right is shown by the
// engine's own tests.
#include "engine/runner/parallel_runner.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/runner/sequence_sampler.h"
#include "tests/support/logits_golden.h"

namespace thresher::testing {
namespace {

ParallelRunnerOptions Options(int num_ranks) {
  static const auto catalog = AttentionCatalog::Create({}, nullptr).value();
  return {.backend = {.num_threads = num_ranks},
          .tensor_parallel = num_ranks,
          .rank = {.num_blocks = 8,
                   .block_size = 16,
                   .max_tokens = 32,
                   .max_sequences = 4,
                   .max_position = 64,
                   .attention = catalog.get()}};
}

// One sequence of two prompt tokens, of which the second may be any id.
StepInput InputWith(TokenId token, double temperature = 0) {
  auto request = std::make_shared<GenerationRequest>();
  request->prompt = {5, token};
  request->sampling.temperature = temperature;
  request->sampling.seed = 1;
  StepInput input;
  input.started = {{RequestId{1}, 0, false, request, PrepareSampling(*request, 1)}};
  input.plan.sequences = {{RequestId{1}, 0, 2, true, 0, 0, 1}};
  input.plan.tokens = request->prompt;
  input.plan.block_table = {BlockId{3}};
  input.plan.num_tokens = 2;
  input.plan.num_samples = 1;
  return input;
}

TEST(ParallelRunner, RunsAStepOnTwoRanks) {
  const auto files = ModelFiles::Open(GoldenPath("models/llama31"));
  ASSERT_TRUE(files.ok()) << files.status();
  std::vector<double> progress;
  const auto runner = CreateParallelRunner(**files, Options(2), [&](auto done, auto total) {
    progress.push_back(static_cast<double>(done) / static_cast<double>(total));
  });
  ASSERT_TRUE(runner.ok()) << runner.status();
  ASSERT_FALSE(progress.empty());
  EXPECT_DOUBLE_EQ(progress.back(), 1);
  const StepInput input = InputWith(7);
  StepOutput output;
  const absl::Status status = (*runner)->Wait((*runner)->Launch(input, output));
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(output.samples.size(), 1u);
  EXPECT_TRUE(output.samples[0].valid);
}

// A token that no validated request can hold stands in for a broken device.
TEST(ParallelRunner, AFailedStepFailsTheRunnerForGood) {
  const auto files = ModelFiles::Open(GoldenPath("models/llama31"));
  ASSERT_TRUE(files.ok()) << files.status();
  const auto runner = CreateParallelRunner(**files, Options(2), LoadProgress());
  ASSERT_TRUE(runner.ok()) << runner.status();
  const StepInput bad = InputWith(1'000'000), next = InputWith(7);
  StepOutput output, next_output;
  const StepTicket ticket = (*runner)->Launch(bad, output);
  const StepTicket next_ticket = (*runner)->Launch(next, next_output);
  EXPECT_FALSE((*runner)->Wait(ticket).ok());
  EXPECT_FALSE((*runner)->Wait(next_ticket).ok());
  EXPECT_TRUE(next_output.samples.empty());
}

// A parameter that no validated request can hold: the sequence gets no token, the runner goes on.
TEST(ParallelRunner, ARowThatCannotBeDrawnFailsAlone) {
  const auto files = ModelFiles::Open(GoldenPath("models/llama31"));
  ASSERT_TRUE(files.ok()) << files.status();
  const auto runner = CreateParallelRunner(**files, Options(2), LoadProgress());
  ASSERT_TRUE(runner.ok()) << runner.status();
  const StepInput bad = InputWith(7, -1), next = InputWith(7);
  StepOutput output, next_output;
  absl::Status status = (*runner)->Wait((*runner)->Launch(bad, output));
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(output.samples.size(), 1u);
  EXPECT_FALSE(output.samples[0].valid);
  EXPECT_STREQ(output.samples[0].bad_field, "temperature");
  status = (*runner)->Wait((*runner)->Launch(next, next_output));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(next_output.samples[0].valid);
}

TEST(ParallelRunner, RefusesRanksThatDoNotDivideTheModel) {
  const auto files = ModelFiles::Open(GoldenPath("models/llama_tied_f16"));
  ASSERT_TRUE(files.ok()) << files.status();
  const absl::Status status = CreateParallelRunner(**files, Options(2), LoadProgress()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

}  // namespace
}  // namespace thresher::testing
