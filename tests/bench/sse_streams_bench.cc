// 512 concurrent event streams over the fake runner: what the engine, the detokenizer, the JSON and
// the HTTP front end cost together. The client is a process of its own, so that the processor time
// measured here is the server's. One JSON line; exit status 1 if a check fails.
//   sse_streams_bench [STREAMS [TOKENS_PER_STREAM [STEP_MS]]]
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/bench/sse_load.h"
#include "server/config/defaults.h"
#include "server/http/http_frontend.h"
#include "tests/support/fakes/fake_engine.h"

namespace thresher {
namespace {

using Json = nlohmann::ordered_json;

struct Shape {
  int streams = 512;
  int tokens = 400;
  int step_ms = 24;  // 512 streams: 21,333 tokens/s
};

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The client process: reads the port, loads the server, writes what it saw as JSON.
int RunClient(const Shape& shape, FILE* port_from, FILE* report_to) {
  int port = 0;
  if (std::fscanf(port_from, "%d", &port) != 1) return 1;
  SseLoadOptions options;
  options.port = port;
  options.concurrency = options.requests = shape.streams;
  options.body = [&](int i) {
    return Json{{"prompt", Json::array({i % 200, 1, 2, 3})},
                {"max_tokens", shape.tokens},
                {"ignore_eos", true},
                {"temperature", 0},
                {"stream", true},
                {"stream_options", {{"include_usage", true}}}}
        .dump();
  };
  absl::StatusOr<SseLoadReport> report = RunSseLoad(options);
  if (!report.ok()) {
    std::cerr << report.status().message() << "\n";
    return 1;
  }
  const Json line{{"wall_s", report->wall_seconds},
                  {"tokens", report->completion_tokens},
                  {"failed", report->failed},
                  {"first_error", report->first_error},
                  {"gap_ms_p50", Percentile(report->gap_seconds, .5) * 1000},
                  {"gap_ms_p99", Percentile(report->gap_seconds, .99) * 1000},
                  {"gap_ms_max", Percentile(report->gap_seconds, 1) * 1000}};
  std::fprintf(report_to, "%s\n", line.dump().c_str());
  return std::fflush(report_to);
}

Json RunServer(const Shape& shape, FILE* port_to, FILE* report_from) {
  v1::ServeConfig flags = DefaultServeConfig();
  flags.set_model("fake");
  flags.set_http_port(0);
  const ServerConfig config = *ServerConfigFrom(flags);
  MetricsRegistry metrics({});
  FakeEngineOptions options;
  options.runner.step_time = absl::Milliseconds(shape.step_ms);
  options.max_model_len = shape.tokens + 64;
  options.scheduler.num_blocks = shape.streams * (shape.tokens / 64 + 2);
  options.scheduler.max_running = shape.streams;
  options.scheduler.token_budget = shape.streams + 512;
  FakeEngine fake(options, &metrics);
  const auto keys = ApiKeys::Open("", {});
  ServingState state(absl::Seconds(60));
  TaskQueue workers(2);
  Quota body_bytes("bytes of request bodies", config.max_held_body_bytes);
  ServerContext context{config, state, metrics, **keys, workers, body_bytes};
  const ServedModel model(*fake.engine, config, 0);
  state.SetModel(model);
  auto http = HttpFrontend::Start(context);
  if (!http.ok()) return Json{{"first_error", std::string(http.status().message())}};
  const double cpu_before = CpuSeconds();
  std::fprintf(port_to, "%d\n", (*http)->port());
  std::fflush(port_to);
  char text[4096] = "";
  const bool read = std::fgets(text, sizeof(text), report_from) != nullptr;
  const double cpu = CpuSeconds() - cpu_before;
  (*http)->Shutdown(absl::Seconds(1));
  workers.Stop();
  Json report = Json::parse(read ? text : "{\"first_error\":\"the client ended\"}");
  report["cpu_s"] = cpu;
  return report;
}

int Run(const Shape& shape) {
  int to_client[2], to_server[2];
  if (pipe(to_client) != 0 || pipe(to_server) != 0) return 1;
  // Before any thread starts.
  const pid_t child = fork();
  if (child == 0) {
    std::_Exit(RunClient(shape, fdopen(to_client[0], "r"), fdopen(to_server[1], "w")));
  }
  close(to_server[1]);
  const Json report = RunServer(shape, fdopen(to_client[1], "w"), fdopen(to_server[0], "r"));
  int status = 0;
  waitpid(child, &status, 0);
  if (!report.contains("wall_s")) {
    std::cerr << report.dump() << "\n";
    return 1;
  }
  const double wall = report["wall_s"], median = report["gap_ms_p50"];
  const double rate = report["tokens"].get<double>() / wall;
  const double cores = report["cpu_s"].get<double>() / wall;
  const double ratio = report["gap_ms_max"].get<double>() / median;
  const bool rate_ok = rate >= 20000, cores_ok = cores <= 0.5, ratio_ok = ratio <= 5;
  Json line{{"bench", "sse_streams"},
            {"case", absl::StrCat(shape.streams, " streams x ", shape.tokens, " tokens, ",
                                  shape.step_ms, " ms steps")},
            {"tokens_per_s", rate},
            {"server_cores", cores},
            {"max_gap_to_median", ratio}};
  line.update(report);
  line["checks"] = {{"tokens_per_s >= 20000", rate_ok},
                    {"server_cores <= 0.5", cores_ok},
                    {"max_gap_to_median <= 5", ratio_ok},
                    {"failed == 0", report["failed"] == 0}};
  std::cout << line.dump() << std::endl;
  return rate_ok && cores_ok && ratio_ok && report["failed"] == 0 && status == 0 ? 0 : 1;
}

}  // namespace
}  // namespace thresher

int main(int argc, char** argv) {
  thresher::Shape shape;
  if (argc > 1) shape.streams = std::atoi(argv[1]);
  if (argc > 2) shape.tokens = std::atoi(argv[2]);
  if (argc > 3) shape.step_ms = std::atoi(argv[3]);
  return thresher::Run(shape);
}
