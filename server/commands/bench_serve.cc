// `thresher bench serve`: loads a running server with concurrent streams; one JSON line.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "absl/strings/str_cat.h"
#include "server/bench/sse_load.h"
#include "server/commands/command_line.h"
#include "server/commands/commands.h"
#include "server/config/defaults.h"

namespace thresher {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kServeUsage[] =
    "usage: thresher bench serve --port N [flags]\n"
    "Loads a running server with concurrent streams.\n";

// Ids that every vocabulary of a thousand and more has, past the bytes and control tokens at its
// beginning.
std::vector<int> RandomPrompt(std::mt19937_64& random, int length) {
  std::uniform_int_distribution<int> id(300, 999);
  std::vector<int> prompt(static_cast<std::size_t>(length));
  for (int& token : prompt) token = id(random);
  return prompt;
}

void PrintPercentiles(const char* name, std::vector<double>& seconds, Json& line) {
  for (const auto& [suffix, share] :
       {std::pair{"p50", .5}, {"p90", .9}, {"p99", .99}, {"max", 1.}}) {
    line[absl::StrCat(name, "_ms_", suffix)] = Percentile(seconds, share) * 1000;
  }
}

absl::StatusOr<std::string> FirstModel(const v1::BenchServeConfig& flags) {
  if (!flags.model().empty()) return flags.model();
  const absl::StatusOr<std::string> body =
      HttpGet(flags.host(), flags.port(), "/v1/models", flags.api_key());
  if (!body.ok()) return body.status();
  const Json models = Json::parse(*body, nullptr, false);
  const Json::json_pointer id("/data/0/id");
  if (models.is_discarded() || !models.contains(id) || !models[id].is_string()) {
    return absl::UnavailableError("/v1/models lists no model");
  }
  return models[id].get<std::string>();
}

}  // namespace

int RunBenchServe(const std::vector<std::string>& arguments) {
  v1::BenchServeConfig flags = DefaultBenchServeConfig();
  if (std::optional<int> end = ReadCommandLine(kServeUsage, arguments, flags)) return *end;
  if (flags.concurrency() < 1 || flags.requests() < 1 || flags.prompt_tokens() < 1 ||
      flags.output_tokens() < 1) {
    Fail(
        absl::InvalidArgumentError("--concurrency, --requests and both lengths must be 1 or more"));
    return 2;
  }
  const absl::StatusOr<std::string> model = FirstModel(flags);
  if (!model.ok()) return Fail(model.status());
  std::mt19937_64 random(static_cast<std::uint64_t>(flags.seed()));
  SseLoadOptions options;
  options.host = flags.host();
  options.port = flags.port();
  options.api_key = flags.api_key();
  options.concurrency = flags.concurrency();
  options.requests = flags.requests();
  options.body = [&](int) {
    return Json{{"model", *model},
                {"prompt", RandomPrompt(random, flags.prompt_tokens())},
                {"max_tokens", flags.output_tokens()},
                {"ignore_eos", true},
                {"temperature", 0},
                {"stream", true},
                {"stream_options", {{"include_usage", true}}}}
        .dump();
  };
  absl::StatusOr<SseLoadReport> report = RunSseLoad(options);
  if (!report.ok()) return Fail(report.status());
  Json line{{"bench", "serve"},
            {"model", *model},
            {"concurrency", flags.concurrency()},
            {"requests", flags.requests()},
            {"prompt_tokens", report->prompt_tokens},
            {"completion_tokens", report->completion_tokens},
            {"cached_tokens", report->cached_tokens},
            {"wall_s", report->wall_seconds},
            {"output_tokens_per_s",
             static_cast<double>(report->completion_tokens) / report->wall_seconds},
            {"requests_per_s", flags.requests() / report->wall_seconds},
            {"failed", report->failed}};
  PrintPercentiles("ttft", report->first_token_seconds, line);
  PrintPercentiles("itl", report->gap_seconds, line);
  std::cout << line.dump() << std::endl;
  if (report->failed == 0) return 0;
  return Fail(absl::UnavailableError(
      absl::StrCat(report->failed, " streams failed; the first: ", report->first_error)));
}

}  // namespace thresher
