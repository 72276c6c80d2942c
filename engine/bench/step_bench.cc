#include "engine/bench/step_bench.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/bench/device_bandwidth.h"
#include "engine/bench/memory_probe.h"
#include "engine/bench/step_driver.h"
#include "engine/bench/step_floor.h"
#include "engine/flag_error.h"
#include "engine/runner/parallel_runner.h"

namespace thresher {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// So that the middle step of a run has the context asked for.
int FirstContext(const DecodeCase& spec, int steps) { return spec.context - steps / 2; }

int LongestSequence(const StepBenchOptions& options) {
  int longest = 1;
  for (const DecodeCase& spec : options.decode) {
    longest = std::max(longest, FirstContext(spec, options.steps) + options.steps);
  }
  for (const int tokens : options.prefill) longest = std::max(longest, tokens);
  return longest;
}

std::int64_t BlocksNeeded(const StepBenchOptions& options) {
  const int block_size = options.engine.scheduler.block_size;
  const auto blocks = [&](int tokens) { return (tokens + block_size - 1) / block_size; };
  std::int64_t most = 1;
  for (const DecodeCase& spec : options.decode) {
    const int tokens = FirstContext(spec, options.steps) + options.steps;
    most = std::max(most, std::int64_t{spec.batch} * blocks(tokens));
  }
  for (const int tokens : options.prefill) most = std::max<std::int64_t>(most, blocks(tokens));
  return most;
}

absl::StatusOr<double> Bandwidth(const StepBenchOptions& options, std::string& device) {
  absl::StatusOr<std::unique_ptr<Backend>> backend =
      CreateBackend(options.engine.device, 0, options.engine.backend);
  if (!backend.ok()) return backend.status();
  device = (*backend)->device().Description();
  if (options.bandwidth > 0) return options.bandwidth;
  if (options.engine.device == DeviceKind::kCpu) {
    return ReadBandwidth(options.engine.backend.num_threads);
  }
  (*backend)->BindThread();
  return PassBandwidth(**backend);
}

absl::StatusOr<std::unique_ptr<ModelRunner>> LoadRunner(const StepBenchOptions& options,
                                                        const ModelFiles& files,
                                                        const AttentionCatalog& catalog,
                                                        int num_blocks) {
  const SchedulerOptions& scheduler = options.engine.scheduler;
  int most_rows = scheduler.token_budget;
  // Prompts that fill the cache have a block each at least, or are as long as sequences get.
  int most_sequences =
      most_rows / std::min({scheduler.block_size, LongestSequence(options), most_rows});
  for (const DecodeCase& spec : options.decode) {
    most_rows = std::max(most_rows, spec.batch);
    most_sequences = std::max(most_sequences, spec.batch);
  }
  return CreateParallelRunner(files,
                              {.device = options.engine.device,
                               .backend = options.engine.backend,
                               .rank = {.num_blocks = num_blocks,
                                        .block_size = scheduler.block_size,
                                        .kv_cache_dtype = options.engine.kv_cache_dtype,
                                        .max_tokens = most_rows,
                                        .max_sequences = most_sequences,
                                        .max_position = LongestSequence(options),
                                        .attention = &catalog}},
                              LoadProgress());
}

// Runs a case once to warm up, then so many times; the runs must draw the same tokens.
template <typename Run>
absl::StatusOr<StepBenchCase> Measure(const std::string& name, int repetitions, bool is_decode,
                                      const Run& run, std::string& disagreement) {
  std::vector<double> milliseconds, cpu;
  std::vector<TokenId> first_tokens;
  for (int repetition = 0; repetition <= repetitions; ++repetition) {
    absl::StatusOr<DrivenRun> driven = run();
    if (!driven.ok()) return driven.status();
    if (!driven->all_valid) {
      disagreement = absl::StrCat(name, ": a row of logits was not finite");
    }
    if (repetition == 0) {
      first_tokens = driven->tokens;
      continue;
    }
    if (driven->tokens != first_tokens) {
      disagreement =
          absl::StrCat(name, ": repetition ", repetition, " drew other tokens than the first run");
    }
    const double steps = is_decode ? static_cast<double>(driven->step_seconds.size()) : 1.0;
    cpu.push_back(1e3 * driven->cpu_seconds / steps);
    // The first step's time is that of two, as nothing was in flight before it.
    if (is_decode) driven->step_seconds.erase(driven->step_seconds.begin());
    milliseconds.push_back(1e3 * (is_decode ? Median(driven->step_seconds) : driven->seconds));
  }
  return StepBenchCase{.name = name,
                       .milliseconds = Median(milliseconds),
                       .fastest = *std::ranges::min_element(milliseconds),
                       .slowest = *std::ranges::max_element(milliseconds),
                       .cpu_milliseconds = Median(cpu)};
}

absl::Status MeasureAll(const StepBenchOptions& options, const StepFloor& floor, StepDriver& driver,
                        const StepBenchProgress& progress, StepBenchReport& report) {
  for (const DecodeCase& spec : options.decode) {
    absl::StatusOr<StepBenchCase> measured = Measure(
        absl::StrCat("decode_", spec.batch, "x", spec.context), options.repetitions, true,
        [&] { return driver.Decode(spec.batch, FirstContext(spec, options.steps), options.steps); },
        report.disagreement);
    if (!measured.ok()) return measured.status();
    measured->floor = 1e3 * floor.DecodeBytes(spec.batch, spec.context) / report.bandwidth;
    measured->tokens_per_second = 1e3 * spec.batch / measured->milliseconds;
    report.cases.push_back(*std::move(measured));
    if (progress) progress(report);
  }
  for (const int tokens : options.prefill) {
    absl::StatusOr<StepBenchCase> measured = Measure(
        absl::StrCat("first_token_", tokens), options.repetitions, false,
        [&] { return driver.Prefill(tokens); }, report.disagreement);
    if (!measured.ok()) return measured.status();
    if (options.flops > 0) {
      measured->floor = 1e3 * floor.PrefillOperations(tokens) / options.flops;
    }
    measured->tokens_per_second = 1e3 * tokens / measured->milliseconds;
    report.cases.push_back(*std::move(measured));
    if (progress) progress(report);
  }
  return absl::OkStatus();
}

std::string Line(const StepBenchReport& report, const std::string& commit,
                 const std::string& command, const std::string& name, double value,
                 const char* unit, const nlohmann::ordered_json& rest) {
  nlohmann::ordered_json line = {
      {"bench", "step"},  {"case", name},       {"device", report.device},
      {"commit", commit}, {"command", command}, {"value", value},
      {"unit", unit}};
  line.update(rest);
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

absl::Status StepBenchOptions::Validate() const {
  if (decode.empty() && prefill.empty()) {
    return absl::InvalidArgumentError("give at least one --decode or --prefill");
  }
  if (steps < 2 || steps > 4096) return FlagError("--steps", steps, "from 2 to 4096");
  if (repetitions < 1) return FlagError("--repetitions", repetitions, "at least 1");
  if (!(bandwidth >= 0)) return absl::InvalidArgumentError("--bandwidth must be 0 or more");
  if (!(flops >= 0)) return absl::InvalidArgumentError("--tflops must be 0 or more");
  for (const DecodeCase& spec : decode) {
    if (spec.batch < 1 || spec.batch > 4096) {
      return FlagError("the batch of --decode", spec.batch, "from 1 to 4096");
    }
    // A row past a prompt has one token before it at least.
    if (FirstContext(spec, steps) < 1) {
      return FlagError("the context of --decode", spec.context,
                       absl::StrCat("above half of --steps, which is ", steps));
    }
  }
  for (const int tokens : prefill) {
    if (tokens < 1) return FlagError("--prefill", tokens, "at least 1");
  }
  return engine.Validate();
}

absl::StatusOr<StepBenchReport> RunStepBench(const StepBenchOptions& options,
                                             const StepBenchProgress& progress) {
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<ModelFiles>> files = ModelFiles::Open(options.engine.model_path);
  if (!files.ok()) return files.status();
  const ModelConfig& config = (*files)->config();
  if (LongestSequence(options) > config.max_position) {
    return FlagError("the longest sequence", LongestSequence(options),
                     absl::StrCat("at most ", config.max_position, ", the model's context"));
  }
  StepBenchReport report;
  const std::int64_t num_blocks = BlocksNeeded(options);
  if (num_blocks * options.engine.scheduler.block_size > (std::int64_t{1} << 30)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the cases need ", num_blocks, " blocks of KV cache, more than 2^30 tokens"));
  }
  report.num_blocks = static_cast<int>(num_blocks);
  const absl::StatusOr<StepFloor> floor =
      StepFloorOf(**files, options.engine.device, options.engine.kv_cache_dtype);
  if (!floor.ok()) return floor.status();
  report.weight_bytes = floor->weight_bytes;
  const absl::StatusOr<double> bandwidth = Bandwidth(options, report.device);
  if (!bandwidth.ok()) return bandwidth.status();
  report.bandwidth = *bandwidth;

  absl::StatusOr<std::unique_ptr<AttentionCatalog>> catalog =
      AttentionCatalog::Create({}, nullptr, options.engine.device);
  if (!catalog.ok()) return catalog.status();
  const Clock::time_point start = Clock::now();
  absl::StatusOr<std::unique_ptr<ModelRunner>> runner =
      LoadRunner(options, **files, **catalog, report.num_blocks);
  if (!runner.ok()) return runner.status();
  report.load_seconds = SecondsSince(start);
  StepDriver driver(**runner, {.num_blocks = report.num_blocks,
                               .block_size = options.engine.scheduler.block_size,
                               .token_budget = options.engine.scheduler.token_budget,
                               .max_sequence_length = LongestSequence(options),
                               .vocab_size = config.vocab_size});
  const Clock::time_point filled_from = Clock::now();
  if (absl::Status status = driver.FillCache(); !status.ok()) return status;
  report.fill_seconds = SecondsSince(filled_from);
  if (absl::Status status = MeasureAll(options, *floor, driver, progress, report); !status.ok()) {
    return status;
  }
  return report;
}

std::string StepBenchCaseLine(const StepBenchReport& report, const StepBenchCase& measured,
                              const std::string& commit, const std::string& command) {
  nlohmann::ordered_json rest = {{"floor", nullptr}};
  if (measured.floor > 0) {
    rest = {{"floor", measured.floor}, {"ratio_to_floor", measured.floor / measured.milliseconds}};
  }
  rest.update({{"peer", nullptr},
               {"tokens_per_s", measured.tokens_per_second},
               {"fastest", measured.fastest},
               {"slowest", measured.slowest},
               {"cpu_ms", measured.cpu_milliseconds}});
  return Line(report, commit, command, measured.name, measured.milliseconds, "ms", rest);
}

std::vector<std::string> StepBenchRunLines(const StepBenchReport& report, const std::string& commit,
                                           const std::string& command) {
  const auto line = [&](const std::string& name, double value, const char* unit,
                        const nlohmann::ordered_json& rest) {
    return Line(report, commit, command, name, value, unit, rest);
  };
  return {
      line("load", report.load_seconds, "s", nlohmann::ordered_json::object()),
      line("fill_cache", report.fill_seconds, "s", {{"blocks", report.num_blocks}}),
      line("bandwidth", report.bandwidth / 1e9, "GB/s", {{"weight_bytes", report.weight_bytes}}),
      line("agreement", report.disagreement.empty() ? 1 : 0, "bool",
           {{"disagreement", report.disagreement}})};
}

}  // namespace thresher
