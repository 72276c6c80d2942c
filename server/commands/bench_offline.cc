// `thresher bench offline`: speed of the engine in this process; a JSON line a case.
#include <iostream>

#include "absl/strings/str_cat.h"
#include "engine/bench/offline_bench.h"
#include "server/commands/command_line.h"
#include "server/commands/commands.h"
#include "server/config/defaults.h"
#include "server/config/server_config.h"

namespace thresher {
namespace {

constexpr char kOfflineUsage[] =
    "usage: thresher bench offline --model PATH [flags]\n"
    "A prefill and decodes, beside their matrix products alone and the reading of the weights.\n";

}  // namespace

int RunBenchOffline(const std::vector<std::string>& arguments) {
  v1::BenchOfflineConfig flags = DefaultBenchOfflineConfig();
  if (std::optional<int> end = ReadCommandLine(kOfflineUsage, arguments, flags)) return *end;
  v1::ServeConfig settings = DefaultServeConfig();
  settings.set_model(flags.model());
  settings.set_threads(flags.threads());
  settings.set_tensor_parallel(flags.tensor_parallel());
  settings.set_cpu_isa(flags.cpu_isa());
  settings.set_kv_cache_tokens(flags.kv_cache_tokens());
  settings.set_batch_invariant(flags.batch_invariant());
  const absl::StatusOr<ServerConfig> config = ServerConfigFrom(settings);
  OfflineBenchOptions options;
  absl::Status status = config.status();
  if (status.ok()) {
    options.engine = config->engine;
    options.prefill_tokens = flags.prefill_tokens();
    options.decode_streams = {1};
    if (flags.streams() != 1) options.decode_streams.push_back(flags.streams());
    options.decode_tokens = flags.decode_tokens();
    options.repetitions = flags.repetitions();
    status = options.Validate();
  }
  if (!status.ok()) {
    Fail(status);
    return 2;
  }
  const absl::StatusOr<OfflineBenchReport> report = RunOfflineBench(options);
  if (!report.ok()) return Fail(report.status());
  std::string command = "thresher bench offline";
  for (const std::string& argument : arguments) absl::StrAppend(&command, " ", argument);
  for (const std::string& line : OfflineBenchLines(*report, flags.commit(), command)) {
    std::cout << line << std::endl;
  }
  return report->disagreement.empty() ? 0 : Fail(absl::InternalError(report->disagreement));
}

}  // namespace thresher
