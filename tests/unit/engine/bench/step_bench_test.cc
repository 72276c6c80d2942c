// The step benchmark on the CPU, with a model that needs no file; and that its floors are what one
// counts by hand.
#include "engine/bench/step_bench.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "engine/bench/step_driver.h"
#include "engine/bench/step_floor.h"
#include "engine/runner/parallel_runner.h"

namespace thresher {
namespace {

StepBenchOptions TinyOptions() {
  StepBenchOptions options;
  options.engine.model_path = "synthetic:tiny";
  options.engine.backend.num_threads = 1;
  options.engine.scheduler.block_size = 16;
  options.engine.scheduler.token_budget = 130;
  options.engine.scheduler.max_running = 1;
  options.decode = {{.batch = 1, .context = 32}, {.batch = 3, .context = 100}};
  options.prefill = {150};
  options.steps = 6;
  options.repetitions = 1;
  options.bandwidth = 1e9;
  options.flops = 1e9;
  return options;
}

TEST(StepBench, MeasuresEveryCaseOnce) {
  std::vector<std::string> told;
  const absl::StatusOr<StepBenchReport> report = RunStepBench(
      TinyOptions(),
      [&](const StepBenchReport& so_far) { told.push_back(so_far.cases.back().name); });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(told, (std::vector<std::string>{"decode_1x32", "decode_3x100", "first_token_150"}));
  EXPECT_EQ(report->disagreement, "");
  // 3 sequences of 100 + 3 tokens, in blocks of 16.
  EXPECT_EQ(report->num_blocks, 21);
  ASSERT_EQ(report->cases.size(), 3u);
  EXPECT_EQ(report->cases[0].name, "decode_1x32");
  EXPECT_EQ(report->cases[1].name, "decode_3x100");
  EXPECT_EQ(report->cases[2].name, "first_token_150");
  for (const StepBenchCase& measured : report->cases) {
    EXPECT_GT(measured.milliseconds, 0) << measured.name;
    EXPECT_GT(measured.floor, 0) << measured.name;
    EXPECT_GT(measured.tokens_per_second, 0) << measured.name;
    EXPECT_LE(measured.fastest, measured.slowest) << measured.name;
  }
}

// Blocks larger than any sequence, and a cache that prompts of a step do not fill evenly.
TEST(StepBench, FillsCachesOfAnySize) {
  StepBenchOptions options = TinyOptions();
  options.prefill.clear();
  for (const int block_size : {16, 64, 128}) {
    options.engine.scheduler.block_size = block_size;
    options.decode = {{.batch = 5, .context = 40}};
    const absl::StatusOr<StepBenchReport> report = RunStepBench(options, nullptr);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->disagreement, "") << block_size;
  }
}

TEST(StepBench, LinesAreJsonWithTheRatioToTheFloor) {
  StepBenchReport report;
  report.device = "cpu";
  report.bandwidth = 2e9;
  report.cases = {{.name = "decode_1x32", .milliseconds = 4, .floor = 3, .tokens_per_second = 250},
                  {.name = "first_token_9", .milliseconds = 5}};
  const auto parse = [&](int index) {
    return nlohmann::json::parse(
        StepBenchCaseLine(report, report.cases[static_cast<std::size_t>(index)], "c", "command"));
  };
  const nlohmann::json decode = parse(0);
  EXPECT_EQ(decode["bench"], "step");
  EXPECT_EQ(decode["case"], "decode_1x32");
  EXPECT_EQ(decode["value"], 4);
  EXPECT_EQ(decode["unit"], "ms");
  EXPECT_EQ(decode["ratio_to_floor"], 0.75);
  EXPECT_EQ(decode["tokens_per_s"], 250);
  EXPECT_TRUE(parse(1)["floor"].is_null());
  const std::vector<std::string> lines = StepBenchRunLines(report, "c", "command");
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(nlohmann::json::parse(lines[2])["value"], 2);
  EXPECT_EQ(nlohmann::json::parse(lines[3])["value"], 1);
}

TEST(StepBench, RefusesByTheFlagsName) {
  const auto message = [](const StepBenchOptions& options) {
    return std::string(options.Validate().message());
  };
  EXPECT_EQ(message(TinyOptions()), "");
  StepBenchOptions bad = TinyOptions();
  bad.decode.clear();
  bad.prefill.clear();
  EXPECT_EQ(message(bad), "give at least one --decode or --prefill");
  bad = TinyOptions();
  bad.steps = 1;
  EXPECT_EQ(message(bad), "--steps is 1; it must be from 2 to 4096");
  bad = TinyOptions();
  bad.decode[0].batch = 0;
  EXPECT_NE(message(bad).find("the batch of --decode is 0"), std::string::npos);
  bad = TinyOptions();
  bad.decode[0].context = 3;
  EXPECT_NE(message(bad).find("the context of --decode is 3"), std::string::npos);
  bad = TinyOptions();
  bad.prefill = {200000};
  EXPECT_EQ(RunStepBench(bad, nullptr).status().message(),
            "the longest sequence is 200000; it must be at most 131072, the model's context");
}

// tiny: two layers of hidden 256, inner 512, 4 heads and 2 KV heads of 64; a vocabulary of 1024.
TEST(StepFloor, CountsBytesAndOperations) {
  const auto files = ModelFiles::Open("synthetic:tiny").value();
  const StepFloor floor = StepFloorOf(*files, DeviceKind::kCpu, DType::kF32).value();
  const std::int64_t layer = 256 * (256 + 2 * 128) + 256 * 256 + 3 * 256 * 512;
  EXPECT_EQ(floor.layer_elements, 2 * layer);
  EXPECT_EQ(floor.head_elements, 1024 * 256);
  EXPECT_EQ(floor.weight_bytes, 2 * (2 * layer + 1024 * 256));
  EXPECT_EQ(floor.kv_bytes, 2 * 2 * 2 * 64 * 4);
  EXPECT_EQ(floor.DecodeBytes(3, 10),
            static_cast<double>(floor.weight_bytes + 30 * floor.kv_bytes));
  // Two tokens: 2 operations a weight and token, the head once; 3 pairs of rows in each head, two
  // products of 64 of 2 operations.
  EXPECT_EQ(floor.PrefillOperations(2),
            2.0 * (2 * 2 * layer + 1024 * 256) + 2 * 4 * 3 * 2 * 64 * 2.0);
}

// A prompt that the driver cuts into chunks draws the token of one that it does not cut, and decode
// steps draw what they drew before.
TEST(StepDriver, DrawsTheSameWhateverTheChunks) {
  const auto files = ModelFiles::Open("synthetic:tiny").value();
  const auto catalog = AttentionCatalog::Create({}, nullptr).value();
  const auto runner = CreateParallelRunner(*files,
                                           {.backend = {.num_threads = 1, .full_precision = true},
                                            .rank = {.num_blocks = 20,
                                                     .block_size = 16,
                                                     .kv_cache_dtype = DType::kF32,
                                                     .max_tokens = 128,
                                                     .max_sequences = 8,
                                                     .max_position = 128,
                                                     .attention = catalog.get()}},
                                           LoadProgress());
  ASSERT_TRUE(runner.ok()) << runner.status();
  const auto driver = [&](int token_budget) {
    return StepDriver(**runner, {.num_blocks = 20,
                                 .block_size = 16,
                                 .token_budget = token_budget,
                                 .max_sequence_length = 128,
                                 .vocab_size = files->config().vocab_size});
  };
  std::vector<TokenId> first;
  for (const int budget : {128, 50, 7}) {
    const absl::StatusOr<DrivenRun> run = driver(budget).Prefill(101);
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_EQ(run->tokens.size(), 1u);
    EXPECT_TRUE(run->all_valid);
    EXPECT_EQ(run->step_seconds.size(), static_cast<std::size_t>((101 + budget - 1) / budget));
    if (first.empty()) first = run->tokens;
    EXPECT_EQ(run->tokens, first) << budget;
  }
  StepDriver decodes = driver(128);
  ASSERT_TRUE(decodes.FillCache().ok());
  const absl::StatusOr<DrivenRun> once = decodes.Decode(4, 60, 5);
  const absl::StatusOr<DrivenRun> again = decodes.Decode(4, 60, 5);
  ASSERT_TRUE(once.ok()) << once.status();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(once->tokens.size(), 20u);
  EXPECT_TRUE(once->all_valid);
  EXPECT_EQ(once->tokens, again->tokens);
  EXPECT_EQ(decodes.Decode(5, 60, 5).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace thresher
