// `thresher serve`: brings up both ports, loads the model behind them, drains on SIGTERM.
#include <algorithm>
#include <iostream>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/commands/command_line.h"
#include "server/commands/commands.h"
#include "server/commands/signals.h"
#include "server/config/defaults.h"
#include "server/config/flag_parser.h"
#include "server/grpc/grpc_service.h"
#include "server/http/http_frontend.h"
#include "server/requests/served_attention.h"

namespace thresher {
namespace {

constexpr char kUsage[] =
    "usage: thresher serve --model PATH [flags]\n"
    "Serves a model over HTTP (OpenAI style) and gRPC. --config FILE reads a text proto of\n"
    "ServeConfig first; flags win over it.\n";

// What is left of an answer after the drain is bytes on their way to a client.
constexpr absl::Duration kFlushTime = absl::Seconds(3);
constexpr int kWorkers = 2;

// Takes --config out of the arguments.
absl::StatusOr<std::string> TakeConfigPath(std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].compare(0, 9, "--config=") == 0) {
      const std::string path = arguments[i].substr(9);
      arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i));
      return path;
    }
    if (arguments[i] != "--config") continue;
    if (i + 1 == arguments.size()) return absl::InvalidArgumentError("--config needs a value");
    const std::string path = arguments[i + 1];
    const auto at = arguments.begin() + static_cast<std::ptrdiff_t>(i);
    arguments.erase(at, at + 2);
    return path;
  }
  return std::string();
}

// One line a tenth; the loader reports far more often.
LoadProgress ProgressPrinter() {
  return [last_tenth = std::int64_t{-1}](std::int64_t done, std::int64_t total) mutable {
    const std::int64_t tenth = total > 0 ? done * 10 / total : 10;
    if (tenth == last_tenth) return;
    last_tenth = tenth;
    std::cout << "loading " << tenth * 10 << " %" << std::endl;
  };
}

std::vector<std::string> NamesOf(const std::vector<AttentionChoice>& levels) {
  std::vector<std::string> names;
  for (const AttentionChoice& level : levels) names.push_back(level.level);
  return names;
}

// Serves until a signal or the engine's failure; the exit status.
int ServeUntilAsked(Engine& engine, const ServerConfig& config, ServingState& state, ApiKeys& keys,
                    GrpcFrontend& grpc, const Signals& signals) {
  while (!signals.asked() && engine.health() != EngineHealth::kFailed) {
    keys.Refresh(absl::Now());
    absl::SleepFor(absl::Milliseconds(50));
  }
  const bool failed = engine.health() == EngineHealth::kFailed;
  state.SetDraining();
  grpc.SetServing(false);
  std::cout << (failed ? "the engine has failed; stopping" : "draining") << std::endl;
  engine.Drain(absl::Now() + (failed ? absl::ZeroDuration() : config.drain));
  return failed ? 1 : 0;
}

int Serve(const ServerConfig& config) {
  Signals& signals = *new Signals();  // its thread runs until the process ends
  absl::StatusOr<std::unique_ptr<ApiKeys>> keys =
      ApiKeys::Open(config.api_keys_path, NamesOf(config.levels));
  if (!keys.ok()) return Fail(keys.status());
  ServingState state(config.stall);
  MetricsRegistry metrics({.model_name = ModelName(config),
                           .vllm_names = config.vllm_metric_names,
                           .levels = config.levels});
  TaskQueue workers(kWorkers);
  Quota body_bytes("bytes of request bodies", config.max_held_body_bytes);
  ServerContext context{config, state, metrics, **keys, workers, body_bytes};
  // The engine and the model outlive the front ends, whose open requests refer to them.
  std::unique_ptr<Engine> engine;
  std::unique_ptr<ServedModel> model;
  absl::StatusOr<std::unique_ptr<HttpFrontend>> http = HttpFrontend::Start(context);
  if (!http.ok()) return Fail(http.status());
  absl::StatusOr<std::unique_ptr<GrpcFrontend>> grpc = GrpcFrontend::Start(context);
  if (!grpc.ok()) return Fail(grpc.status());
  std::cout << "listening on http://" << config.host << ":" << (*http)->port() << " and grpc "
            << config.host << ":" << (*grpc)->port() << std::endl;

  const absl::Time start = absl::Now();
  absl::StatusOr<std::unique_ptr<Engine>> created =
      Engine::Create(config.engine, &metrics, ProgressPrinter());
  absl::Status ready = created.status();
  if (ready.ok()) ready = CheckGivenLevels(config, (*keys)->Levels(), (*created)->attention());
  int status = 0;
  if (ready.ok()) {
    engine = *std::move(created);
    model = std::make_unique<ServedModel>(*engine, config, absl::ToUnixSeconds(start));
    state.SetModel(*model);
    signals.SetDrains();
    (*grpc)->SetServing(true);
    (*keys)->AllowLevels(ServedLevels(config, engine->attention()));
    std::cout << "ready: model " << model->name << ", context " << engine->max_model_len()
              << " tokens, loaded in " << absl::FormatDuration(absl::Now() - start) << "\nhttp://"
              << config.host << ":" << (*http)->port() << std::endl;
    status = ServeUntilAsked(*engine, config, state, **keys, **grpc, signals);
  } else {
    status = Fail(ready);
  }
  (*grpc)->Shutdown(kFlushTime);
  (*http)->Shutdown(kFlushTime);
  workers.Stop();
  return status;
}

}  // namespace

int RunServe(const std::vector<std::string>& given) {
  std::vector<std::string> arguments = given;
  v1::ServeConfig flags = DefaultServeConfig();
  const absl::StatusOr<std::string> path = TakeConfigPath(arguments);
  absl::Status status = path.status();
  if (status.ok() && !path->empty()) status = ReadConfigFile(*path, flags);
  if (!status.ok()) {
    Fail(status);
    return 2;
  }
  if (std::optional<int> end = ReadCommandLine(kUsage, arguments, flags)) return *end;
  const absl::StatusOr<ServerConfig> config = ServerConfigFrom(flags);
  if (!config.ok()) {
    Fail(config.status());
    return 2;
  }
  return Serve(*config);
}

}  // namespace thresher
