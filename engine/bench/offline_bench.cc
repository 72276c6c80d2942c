#include "engine/bench/offline_bench.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/bench/gemm_only.h"
#include "engine/bench/memory_probe.h"

namespace thresher {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A prompt of its own for each stream; ids spread over the vocabulary.
GenerationRequest BenchRequest(int vocab_size, int prompt_tokens, int max_tokens, int stream) {
  GenerationRequest request;
  std::uint32_t state = 1u + static_cast<std::uint32_t>(stream);
  for (int i = 0; i < prompt_tokens; ++i) {
    state = state * 1664525u + 1013904223u;
    request.prompt.push_back(static_cast<TokenId>((state >> 8) % vocab_size));
  }
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  return request;
}

struct Run {
  double seconds = 0;  // from the first token of the last stream to the last token of all
  double seconds_to_first = 0;
  std::int64_t tokens_timed = 0;
  std::vector<std::vector<TokenId>> tokens;  // by stream
};

// Runs the requests together and reads them until all have ended.
absl::StatusOr<Run> RunTogether(Engine& engine, std::vector<GenerationRequest> requests) {
  Run run;
  run.tokens.resize(requests.size());
  const Clock::time_point start = Clock::now();
  // In one step from the first: rows of other batches round to other near-ties.
  auto submitted = engine.SubmitTogether(std::move(requests), nullptr, 0);
  if (!submitted.ok()) return submitted.status();
  const std::vector<std::unique_ptr<RequestHandle>> handles = *std::move(submitted);
  std::vector<TokenEvent> events;
  std::vector<bool> open(handles.size(), true);
  std::size_t num_open = handles.size(), num_started = 0;
  Clock::time_point all_started;
  while (num_open > 0) {
    // The last stream has news in every step that the others have.
    const auto waited_for = std::find(open.rbegin(), open.rend(), true);
    handles[static_cast<std::size_t>(open.rend() - waited_for) - 1]->Wait(absl::Seconds(60));
    for (std::size_t i = 0; i < handles.size(); ++i) {
      if (!open[i]) continue;
      events.clear();
      if (!handles[i]->Poll(events)) {
        open[i] = false;
        --num_open;
      }
      for (const TokenEvent& event : events) {
        if (!event.status.ok()) return event.status;
        if (!event.token.has_value()) continue;
        if (run.tokens[i].empty() && ++num_started == handles.size()) {
          all_started = Clock::now();
          run.seconds_to_first = SecondsSince(start);
        } else if (num_started == handles.size()) {
          ++run.tokens_timed;
        }
        run.tokens[i].push_back(*event.token);
      }
    }
  }
  run.seconds = SecondsSince(all_started);
  return run;
}

// One case: its requests, and how a run of them counts.
struct CaseSpec {
  std::string name;
  int num_streams = 1;
  int prompt_tokens = 0;
  int max_tokens = 1;  // 1: the prefill is timed, else the decode
};

absl::StatusOr<OfflineBenchCase> MeasureCase(Engine& engine, const CaseSpec& spec, int repetitions,
                                             std::string& disagreement) {
  std::vector<double> rates;
  std::vector<std::vector<TokenId>> first_tokens;
  for (int repetition = 0; repetition <= repetitions; ++repetition) {
    std::vector<GenerationRequest> requests;
    for (int stream = 0; stream < spec.num_streams; ++stream) {
      requests.push_back(BenchRequest(engine.model_config().vocab_size, spec.prompt_tokens,
                                      spec.max_tokens, stream));
    }
    absl::StatusOr<Run> run = RunTogether(engine, std::move(requests));
    if (!run.ok()) return run.status();
    if (repetition == 0) {
      first_tokens = run->tokens;
      continue;
    }
    if (run->tokens != first_tokens) {
      disagreement = absl::StrCat(spec.name, ": repetition ", repetition,
                                  " gave other greedy tokens than the first");
    }
    rates.push_back(spec.max_tokens == 1 ? spec.prompt_tokens / run->seconds_to_first
                                         : static_cast<double>(run->tokens_timed) / run->seconds);
  }
  std::sort(rates.begin(), rates.end());
  return OfflineBenchCase{.name = spec.name,
                          .tokens_per_second = rates[rates.size() / 2],
                          .slowest = rates.front(),
                          .fastest = rates.back()};
}

absl::Status CheckContinuation(Engine& engine, const OfflineBenchOptions& options,
                               std::string& disagreement) {
  GenerationRequest request;
  absl::Status status = engine.tokenizer().Encode(options.check_prompt, {}, request.prompt);
  std::vector<TokenId> expected;
  if (status.ok()) {
    status = engine.tokenizer().Encode(options.check_continuation, {.add_special_tokens = false},
                                       expected);
  }
  if (!status.ok()) return status;
  request.max_tokens = static_cast<int>(expected.size());
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  absl::StatusOr<Run> run = RunTogether(engine, {std::move(request)});
  if (!run.ok()) return run.status();
  if (run->tokens[0] != expected) {
    disagreement = absl::StrCat("after '", options.check_prompt, "' came '",
                                Decode(engine.tokenizer(), run->tokens[0], false), "', expected '",
                                options.check_continuation, "'");
  }
  return absl::OkStatus();
}

// What the products alone take, on a backend of their own.
absl::Status Compare(const OfflineBenchOptions& options, const std::vector<CaseSpec>& specs,
                     OfflineBenchReport& report) {
  absl::StatusOr<std::unique_ptr<ModelFiles>> files = ModelFiles::Open(options.engine.model_path);
  if (!files.ok()) return files.status();
  absl::StatusOr<std::unique_ptr<Backend>> backend =
      CreateBackend(options.engine.device, 0, options.engine.backend);
  if (!backend.ok()) return backend.status();
  (*backend)->BindThread();
  report.device = (*backend)->device().Description();
  const int budget = options.engine.scheduler.token_budget;
  absl::StatusOr<std::unique_ptr<GemmOnly>> gemm = GemmOnly::Create(**files, **backend, budget);
  if (!gemm.ok()) return gemm.status();
  report.bandwidth = ReadBandwidth(options.engine.backend.num_threads);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const CaseSpec& spec = specs[i];
    const bool prefills = spec.max_tokens == 1;
    const int rows = prefills ? std::min(spec.prompt_tokens, budget) : spec.num_streams;
    absl::StatusOr<double> seconds =
        (*gemm)->StepSeconds(rows, prefills ? 1 : rows, 2 * options.repetitions);
    if (!seconds.ok()) return seconds.status();
    report.cases[i].gemm_only = rows / *seconds;
    const auto bytes = static_cast<double>((*gemm)->StepBytes(rows, prefills ? 1 : rows));
    report.cases[i].byte_floor = rows / (bytes / report.bandwidth);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status OfflineBenchOptions::Validate() const {
  if (prefill_tokens < 1 || decode_prompt_tokens < 1 || decode_tokens < 2 || repetitions < 1) {
    return absl::InvalidArgumentError(
        "the benchmark needs at least one prompt token and repetition, and two decoded tokens");
  }
  for (const int streams : decode_streams) {
    if (streams < 1 || streams > engine.scheduler.max_running) {
      return absl::InvalidArgumentError(absl::StrCat("decode streams are ", streams,
                                                     "; from 1 to max_running, which is ",
                                                     engine.scheduler.max_running));
    }
  }
  return engine.Validate();
}

absl::StatusOr<OfflineBenchReport> RunOfflineBench(const OfflineBenchOptions& options) {
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  std::vector<CaseSpec> specs = {
      {absl::StrCat("prefill_", options.prefill_tokens), 1, options.prefill_tokens, 1}};
  for (const int streams : options.decode_streams) {
    specs.push_back({absl::StrCat("decode_", streams), streams, options.decode_prompt_tokens,
                     options.decode_tokens});
  }
  OfflineBenchReport report;
  EngineOptions engine_options = options.engine;
  engine_options.scheduler.prefix_cache = false;
  {
    const Clock::time_point start = Clock::now();
    absl::StatusOr<std::unique_ptr<Engine>> engine =
        Engine::Create(engine_options, nullptr, LoadProgress());
    if (!engine.ok()) return engine.status();
    report.load_seconds = SecondsSince(start);
    for (const CaseSpec& spec : specs) {
      absl::StatusOr<OfflineBenchCase> measured =
          MeasureCase(**engine, spec, options.repetitions, report.disagreement);
      if (!measured.ok()) return measured.status();
      report.cases.push_back(*std::move(measured));
    }
    if (!options.check_prompt.empty()) {
      absl::Status status = CheckContinuation(**engine, options, report.disagreement);
      if (!status.ok()) return status;
    }
    report.peak_resident_bytes = PeakResidentBytes();
  }
  if (engine_options.tensor_parallel == 1) {
    if (absl::Status status = Compare(options, specs, report); !status.ok()) return status;
  }
  return report;
}

std::vector<std::string> OfflineBenchLines(const OfflineBenchReport& report,
                                           const std::string& commit, const std::string& command) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& name, double value, const char* unit, auto... rest) {
    nlohmann::ordered_json line = {
        {"bench", "offline"}, {"case", name},       {"device", report.device},
        {"commit", commit},   {"command", command}, {"value", value},
        {"unit", unit}};
    (line.update(rest), ...);
    lines.push_back(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  };
  for (const OfflineBenchCase& measured : report.cases) {
    nlohmann::ordered_json rest = {{"slowest", measured.slowest}, {"fastest", measured.fastest}};
    if (measured.gemm_only > 0) {
      rest.update({{"gemm_only", measured.gemm_only},
                   {"ratio_to_gemm_only", measured.tokens_per_second / measured.gemm_only},
                   {"floor", measured.byte_floor},
                   {"ratio_to_floor", measured.tokens_per_second / measured.byte_floor}});
    }
    add(measured.name, measured.tokens_per_second, "tokens/s", rest);
  }
  add("load", report.load_seconds, "s");
  add("peak_resident", static_cast<double>(report.peak_resident_bytes) / 1e6, "MB");
  if (report.bandwidth > 0) add("read_bandwidth", report.bandwidth / 1e9, "GB/s");
  add("agreement", report.disagreement.empty() ? 1 : 0, "bool",
      nlohmann::ordered_json{{"disagreement", report.disagreement}});
  return lines;
}

}  // namespace thresher
