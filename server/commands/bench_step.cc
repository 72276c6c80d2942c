// `thresher bench step`: time of single steps of the model runner; a JSON line a case.
#include <iostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/bench/step_bench.h"
#include "server/commands/command_line.h"
#include "server/commands/commands.h"
#include "server/config/defaults.h"
#include "server/config/server_config.h"

namespace thresher {
namespace {

constexpr char kUsage[] =
    "usage: thresher bench step --model PATH --decode BATCHxCONTEXT... --prefill TOKENS... "
    "[flags]\n"
    "Decode steps and first tokens of the model runner alone, beside their floors.\n";

// "8x1024"
bool ReadDecodeCase(const std::string& text, DecodeCase& spec) {
  const std::size_t x = text.find('x');
  return x != std::string::npos && absl::SimpleAtoi(text.substr(0, x), &spec.batch) &&
         absl::SimpleAtoi(text.substr(x + 1), &spec.context);
}

absl::Status ReadCases(const v1::BenchStepConfig& flags, StepBenchOptions& options) {
  for (const std::string& text : flags.decode()) {
    if (!ReadDecodeCase(text, options.decode.emplace_back())) {
      return absl::InvalidArgumentError(
          absl::StrCat("--decode is '", text, "'; it must be BATCHxCONTEXT, like 8x1024"));
    }
  }
  for (const std::string& text : flags.prefill()) {
    if (!absl::SimpleAtoi(text, &options.prefill.emplace_back())) {
      return absl::InvalidArgumentError(
          absl::StrCat("--prefill is '", text, "'; it must be a number of tokens"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<StepBenchOptions> ReadOptions(const v1::BenchStepConfig& flags) {
  v1::ServeConfig settings = DefaultServeConfig();
  settings.set_model(flags.model());
  settings.set_device(flags.device());
  settings.set_threads(flags.threads());
  settings.set_cpu_isa(flags.cpu_isa());
  settings.set_kv_cache_dtype(flags.kv_cache_dtype());
  settings.set_block_size(flags.block_size());
  settings.set_token_budget(flags.token_budget());
  settings.set_max_running(1);  // there is no scheduler, whose rule is that a budget exceed it
  settings.set_batch_invariant(flags.batch_invariant());
  const absl::StatusOr<ServerConfig> config = ServerConfigFrom(settings);
  if (!config.ok()) return config.status();
  StepBenchOptions options;
  options.engine = config->engine;
  options.steps = flags.steps();
  options.repetitions = flags.repetitions();
  options.bandwidth = 1e9 * flags.bandwidth();
  options.flops = 1e12 * flags.tflops();
  absl::Status status = ReadCases(flags, options);
  if (status.ok()) status = options.Validate();
  if (!status.ok()) return status;
  return options;
}

}  // namespace

int RunBenchStep(const std::vector<std::string>& arguments) {
  v1::BenchStepConfig flags = DefaultBenchStepConfig();
  if (std::optional<int> end = ReadCommandLine(kUsage, arguments, flags)) return *end;
  const absl::StatusOr<StepBenchOptions> options = ReadOptions(flags);
  if (!options.ok()) {
    Fail(options.status());
    return 2;
  }
  std::string command = "thresher bench step";
  for (const std::string& argument : arguments) absl::StrAppend(&command, " ", argument);
  const absl::StatusOr<StepBenchReport> report =
      RunStepBench(*options, [&](const StepBenchReport& so_far) {
        std::cout << StepBenchCaseLine(so_far, so_far.cases.back(), flags.commit(), command)
                  << std::endl;
      });
  if (!report.ok()) return Fail(report.status());
  for (const std::string& line : StepBenchRunLines(*report, flags.commit(), command)) {
    std::cout << line << std::endl;
  }
  return report->disagreement.empty() ? 0 : Fail(absl::InternalError(report->disagreement));
}

}  // namespace thresher
