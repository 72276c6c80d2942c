#include "engine/bench/throughput_bench.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/bench/bench_clock.h"
#include "engine/flag_error.h"

namespace thresher {
namespace {

using Clock = BenchClock;

double Percentile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  const auto rank = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + rank, values.end());
  return values[static_cast<std::size_t>(rank)];
}

// Which streams have news. The engine thread adds, the benchmark's takes.
class News final : public StreamListener {
 public:
  void OnEventsReady(std::span<const std::uint64_t> tags) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    tags_.insert(tags_.end(), tags.begin(), tags.end());
    changed_.notify_one();
  }
  // Waits for some; what has come since the last call.
  void Take(std::vector<std::uint64_t>& tags) {
    tags.clear();
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return !tags_.empty(); });
    tags.swap(tags_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint64_t> tags_;
};

GenerationRequest RandomRequest(const ThroughputBenchOptions& options, int vocab_size, int index) {
  GenerationRequest request;
  std::uint32_t state = 77u + static_cast<std::uint32_t>(index);
  for (int i = 0; i < options.prompt_tokens; ++i) {
    state = state * 1664525u + 1013904223u;
    request.prompt.push_back(
        static_cast<TokenId>((state >> 8) % static_cast<std::uint32_t>(vocab_size)));
  }
  request.max_tokens = options.output_tokens;
  request.ignore_eos = true;
  request.sampling.temperature = 0;
  return request;
}

class Load final {
 public:
  Load(Engine& engine, const ThroughputBenchOptions& options)
      : engine_(engine), options_(options) {}

  // Requests [first, end), so many open at once. One thread; once for each object.
  absl::Status Run(int first, int end) {
    next_ = first;
    end_ = end;
    while (open_ < options_.concurrency && next_ < end_) {
      if (absl::Status status = SubmitNext(); !status.ok()) return status;
    }
    std::vector<std::uint64_t> tags;
    while (open_ > 0) {
      news_.Take(tags);
      for (const std::uint64_t tag : tags) {
        if (absl::Status status = Read(*streams_[tag]); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  std::vector<double>& first_token_ms() { return first_token_ms_; }
  std::vector<double>& gap_ms() { return gap_ms_; }
  std::int64_t num_tokens() const { return num_tokens_; }
  // Of the request submitted first.
  const std::vector<TokenId>& first_tokens() const { return streams_[0]->tokens; }

 private:
  struct OpenStream {
    std::unique_ptr<RequestHandle> handle;
    Clock::time_point last;
    std::vector<TokenId> tokens;
  };

  absl::Status SubmitNext() {
    auto stream = std::make_unique<OpenStream>();
    stream->last = Clock::now();
    auto handle =
        engine_.Submit(RandomRequest(options_, engine_.model_config().vocab_size, next_++), &news_,
                       streams_.size());
    if (!handle.ok()) return handle.status();
    stream->handle = *std::move(handle);
    streams_.push_back(std::move(stream));
    ++open_;
    return absl::OkStatus();
  }

  absl::Status Read(OpenStream& stream) {
    if (stream.handle == nullptr) return absl::OkStatus();
    events_.clear();
    const bool more = stream.handle->Poll(events_);
    const Clock::time_point now = Clock::now();
    for (const TokenEvent& event : events_) {
      if (!event.status.ok()) return event.status;
      if (!event.token.has_value()) continue;
      const double ms = 1e3 * SecondsBetween(stream.last, now);
      (stream.tokens.empty() ? first_token_ms_ : gap_ms_).push_back(ms);
      stream.last = now;
      stream.tokens.push_back(*event.token);
      ++num_tokens_;
    }
    if (more) return absl::OkStatus();
    stream.handle.reset();
    --open_;
    return next_ < end_ ? SubmitNext() : absl::OkStatus();
  }

  Engine& engine_;
  const ThroughputBenchOptions& options_;
  News news_;  // before the streams, whose handles refer to it
  std::vector<std::unique_ptr<OpenStream>> streams_;
  std::vector<TokenEvent> events_;
  int next_ = 0, end_ = 0, open_ = 0;
  std::vector<double> first_token_ms_, gap_ms_;
  std::int64_t num_tokens_ = 0;
};

}  // namespace

absl::Status ThroughputBenchOptions::Validate() const {
  if (requests < 1) return FlagError("--requests", requests, "at least 1");
  if (prompt_tokens < 1) return FlagError("--prompt-tokens", prompt_tokens, "at least 1");
  if (output_tokens < 1) return FlagError("--output-tokens", output_tokens, "at least 1");
  if (concurrency < 1 || concurrency > 4096) {
    return FlagError("--concurrency", concurrency, "from 1 to 4096");
  }
  return engine.Validate();
}

absl::StatusOr<ThroughputBenchReport> RunThroughputBench(const ThroughputBenchOptions& options) {
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  EngineOptions engine_options = options.engine;
  engine_options.scheduler.prefix_cache = false;
  engine_options.scheduler.max_running = options.concurrency;
  engine_options.max_model_len = options.prompt_tokens + options.output_tokens;
  // What waits is what is open, at most.
  engine_options.scheduler.max_queued_requests =
      std::max(engine_options.scheduler.max_queued_requests, options.concurrency);
  engine_options.scheduler.max_queued_prompt_tokens =
      std::max(engine_options.scheduler.max_queued_prompt_tokens,
               std::int64_t{options.concurrency} * options.prompt_tokens);
  ThroughputBenchReport report;
  {
    const absl::StatusOr<std::unique_ptr<Backend>> backend =
        CreateBackend(options.engine.device, 0, options.engine.backend);
    if (!backend.ok()) return backend.status();
    report.device = (*backend)->device().Description();
  }
  const Clock::time_point load_start = Clock::now();
  absl::StatusOr<std::unique_ptr<Engine>> engine =
      Engine::Create(engine_options, nullptr, LoadProgress());
  if (!engine.ok()) return engine.status();
  report.load_seconds = SecondsBetween(load_start, Clock::now());

  Load before(**engine, options);
  if (absl::Status status = before.Run(0, 1); !status.ok()) return status;
  Load load(**engine, options);
  const double cpu_start = ProcessorSeconds();
  const Clock::time_point start = Clock::now();
  if (absl::Status status = load.Run(0, options.requests); !status.ok()) return status;
  report.seconds = SecondsBetween(start, Clock::now());
  report.cpu_seconds = ProcessorSeconds() - cpu_start;
  Load after(**engine, options);
  if (absl::Status status = after.Run(0, 1); !status.ok()) return status;
  if (after.first_tokens() != before.first_tokens()) {
    report.disagreement = "a request alone drew other tokens after the load than before it";
  }
  const std::int64_t wanted = std::int64_t{options.requests} * options.output_tokens;
  if (load.num_tokens() != wanted) {
    report.disagreement = absl::StrCat(load.num_tokens(), " tokens came, not ", wanted);
  }
  const auto output = static_cast<double>(load.num_tokens());
  report.output_tokens_per_second = output / report.seconds;
  report.tokens_per_second =
      (output + static_cast<double>(options.requests) * options.prompt_tokens) / report.seconds;
  report.first_token_ms_p50 = Percentile(load.first_token_ms(), 0.5);
  report.first_token_ms_p99 = Percentile(load.first_token_ms(), 0.99);
  report.gap_ms_p50 = Percentile(load.gap_ms(), 0.5);
  report.gap_ms_p99 = Percentile(load.gap_ms(), 0.99);
  return report;
}

std::string ThroughputBenchLine(const ThroughputBenchOptions& options,
                                const ThroughputBenchReport& report, const std::string& commit,
                                const std::string& command) {
  const nlohmann::ordered_json line = {
      {"bench", "offline"},
      {"case", absl::StrCat("requests_", options.prompt_tokens, "_", options.output_tokens, "_at_",
                            options.concurrency)},
      {"device", report.device},
      {"commit", commit},
      {"command", command},
      {"value", report.output_tokens_per_second},
      {"unit", "output tokens/s"},
      {"floor", nullptr},
      {"peer", nullptr},
      {"requests", options.requests},
      {"tokens_per_s", report.tokens_per_second},
      {"wall_s", report.seconds},
      {"cpu_s", report.cpu_seconds},
      {"load_s", report.load_seconds},
      {"first_token_ms_p50", report.first_token_ms_p50},
      {"first_token_ms_p99", report.first_token_ms_p99},
      {"gap_ms_p50", report.gap_ms_p50},
      {"gap_ms_p99", report.gap_ms_p99},
      {"agreement", report.disagreement.empty()},
      {"disagreement", report.disagreement}};
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace thresher
