// `thresher bench offline`: speed of the engine in this process; a JSON line a case.
#include <iostream>

#include "absl/strings/str_cat.h"
#include "engine/bench/offline_bench.h"
#include "engine/bench/throughput_bench.h"
#include "server/commands/command_line.h"
#include "server/commands/commands.h"
#include "server/config/defaults.h"
#include "server/config/server_config.h"

namespace thresher {
namespace {

constexpr char kOfflineUsage[] =
    "usage: thresher bench offline --model PATH [flags]\n"
    "       thresher bench offline --model PATH --requests N [flags]\n"
    "A prefill and decodes, beside their matrix products alone and the reading of the weights; or\n"
    "the output tokens a second of random requests, a number of them at once.\n";

absl::StatusOr<ServerConfig> ReadConfig(const v1::BenchOfflineConfig& flags) {
  v1::ServeConfig settings = DefaultServeConfig();
  settings.set_model(flags.model());
  settings.set_device(flags.device());
  settings.set_kv_memory_fraction(flags.kv_memory_fraction());
  settings.set_token_budget(flags.token_budget());
  settings.set_threads(flags.threads());
  settings.set_tensor_parallel(flags.tensor_parallel());
  settings.set_cpu_isa(flags.cpu_isa());
  settings.set_kv_cache_tokens(flags.kv_cache_tokens());
  settings.set_batch_invariant(flags.batch_invariant());
  return ServerConfigFrom(settings);
}

int WrongFlags(const absl::Status& status) {
  Fail(status);
  return 2;
}

int RunCases(const v1::BenchOfflineConfig& flags, const EngineOptions& engine,
             const std::string& command) {
  OfflineBenchOptions options;
  options.engine = engine;
  options.prefill_tokens = flags.prefill_tokens();
  options.decode_streams = {1};
  if (flags.streams() != 1) options.decode_streams.push_back(flags.streams());
  options.decode_tokens = flags.decode_tokens();
  options.repetitions = flags.repetitions();
  if (absl::Status status = options.Validate(); !status.ok()) return WrongFlags(status);
  const absl::StatusOr<OfflineBenchReport> report = RunOfflineBench(options);
  if (!report.ok()) return Fail(report.status());
  for (const std::string& line : OfflineBenchLines(*report, flags.commit(), command)) {
    std::cout << line << std::endl;
  }
  return report->disagreement.empty() ? 0 : Fail(absl::InternalError(report->disagreement));
}

int RunRequests(const v1::BenchOfflineConfig& flags, const EngineOptions& engine,
                const std::string& command) {
  ThroughputBenchOptions options;
  options.engine = engine;
  options.requests = flags.requests();
  options.prompt_tokens = flags.prompt_tokens();
  options.output_tokens = flags.output_tokens();
  options.concurrency = flags.concurrency();
  if (absl::Status status = options.Validate(); !status.ok()) return WrongFlags(status);
  const absl::StatusOr<ThroughputBenchReport> report = RunThroughputBench(options);
  if (!report.ok()) return Fail(report.status());
  std::cout << ThroughputBenchLine(options, *report, flags.commit(), command) << std::endl;
  return report->disagreement.empty() ? 0 : Fail(absl::InternalError(report->disagreement));
}

}  // namespace

int RunBenchOffline(const std::vector<std::string>& arguments) {
  v1::BenchOfflineConfig flags = DefaultBenchOfflineConfig();
  if (std::optional<int> end = ReadCommandLine(kOfflineUsage, arguments, flags)) return *end;
  const absl::StatusOr<ServerConfig> config = ReadConfig(flags);
  if (!config.ok()) return WrongFlags(config.status());
  std::string command = "thresher bench offline";
  for (const std::string& argument : arguments) absl::StrAppend(&command, " ", argument);
  return flags.requests() != 0 ? RunRequests(flags, config->engine, command)
                               : RunCases(flags, config->engine, command);
}

}  // namespace thresher
