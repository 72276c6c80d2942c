#include "server/metrics/metrics_registry.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <array>

#include "server/metrics/attention_metrics.h"
#include "server/metrics/text_format.h"

namespace thresher {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;
using Buckets = Histogram::BucketBoundaries;

// An inter-token time of 3 ms and a queue of 5 ms must fall between boundaries close to them; the
// upper ends are those that dashboards of other engines assume.
const Buckets kInterToken = {.0005, .001, .0015, .002, .0025, .003, .0035, .004, .005, .006, .007,
                             .008,  .009, .01,   .012, .015,  .02,  .025,  .03,  .04,  .05,  .075,
                             .1,    .15,  .2,    .3,   .5,    .75,  1,     2.5,  5,    10};
const Buckets kToFirstToken = {.001, .002, .003, .005, .0075, .01, .015, .02, .03,
                               .04,  .06,  .08,  .1,   .15,   .25, .5,   .75, 1,
                               2.5,  5,    7.5,  10,   20,    40,  80,   160};
const Buckets kRequest = {.005, .01, .025, .05, .1, .25, .5, 1,   1.5, 2,   2.5, 5,
                          10,   15,  20,   30,  40, 50,  60, 120, 240, 480, 960};
const Buckets kQueue = {.0005, .001, .002, .003, .004, .005, .0075, .01, .025, .05, .1,
                        .25,   .5,   1,    2.5,  5,    10,   20,    30,  60,   120, 240};
const Buckets kStepTokens = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

constexpr std::array kOutcomes = {RequestOutcome::kStop,    RequestOutcome::kLength,
                                  RequestOutcome::kAborted, RequestOutcome::kDeadline,
                                  RequestOutcome::kError,   RequestOutcome::kRejected};
constexpr std::array kOutcomeNames = {"stop", "length", "aborted", "deadline", "error", "rejected"};

// One number under our name and, if asked for, under another engine's.
template <typename Metric>
struct Twin {
  Metric* own = nullptr;
  Metric* alias = nullptr;
};

void Add(const Twin<Counter>& counter, double amount) {
  if (amount <= 0) return;
  counter.own->Increment(amount);
  if (counter.alias != nullptr) counter.alias->Increment(amount);
}

void Set(const Twin<Gauge>& gauge, double value) {
  gauge.own->Set(value);
  if (gauge.alias != nullptr) gauge.alias->Set(value);
}

void Observe(const Twin<Histogram>& histogram, double value) {
  histogram.own->Observe(value);
  if (histogram.alias != nullptr) histogram.alias->Observe(value);
}

}  // namespace

struct MetricsRegistry::State {
  explicit State(const MetricsOptions& options)
      : alias_labels{{"model_name", options.model_name}, {"engine", "0"}},
        with_aliases(options.vllm_names),
        attention(options.levels, registry) {}

  // An empty alias: the other engine has no such metric.
  Twin<Counter> MakeCounter(const char* name, const char* alias, const char* help,
                            const Labels& labels = {}, Labels alias_extra = {}) {
    Twin<Counter> twin;
    twin.own = &prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
    if (with_aliases && alias[0] != '\0') {
      alias_extra.insert(alias_labels.begin(), alias_labels.end());
      twin.alias =
          &prometheus::BuildCounter().Name(alias).Help(help).Register(registry).Add(alias_extra);
    }
    return twin;
  }

  Twin<Gauge> MakeGauge(const char* name, const char* alias, const char* help,
                        const Labels& labels = {}) {
    Twin<Gauge> twin;
    twin.own = &prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
    if (with_aliases && alias[0] != '\0') {
      twin.alias =
          &prometheus::BuildGauge().Name(alias).Help(help).Register(registry).Add(alias_labels);
    }
    return twin;
  }

  Twin<Histogram> MakeHistogram(const char* name, const char* alias, const char* help,
                                const Buckets& buckets) {
    Twin<Histogram> twin;
    twin.own =
        &prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
    if (with_aliases && alias[0] != '\0') {
      twin.alias = &prometheus::BuildHistogram().Name(alias).Help(help).Register(registry).Add(
          alias_labels, buckets);
    }
    return twin;
  }

  // Totals since start, told by every step, as counters.
  void AddSince(const Twin<Counter>& counter, std::int64_t total, std::int64_t& last) {
    Add(counter, static_cast<double>(total - last));
    last = std::max(last, total);
  }

  prometheus::Registry registry;
  const Labels alias_labels;
  const bool with_aliases;
  AttentionMetrics attention;
  Twin<Gauge> running, waiting, blocks_free, blocks_cached, blocks_owned;
  Gauge* alias_kv_usage = nullptr;
  std::array<Twin<Counter>, kOutcomes.size()> requests;
  Twin<Counter> prompt_tokens, generated_tokens, preemptions, prefix_queried, prefix_hit;
  Twin<Histogram> queue, first_token, inter_token, request, step, step_tokens;
  // Engine thread only.
  std::int64_t last_prompt = 0, last_generated = 0;
  std::int64_t last_preemptions = 0, last_queried = 0, last_hit = 0;
};

MetricsRegistry::MetricsRegistry(const MetricsOptions& options)
    : state_(std::make_unique<State>(options)) {
  State& s = *state_;
  s.running = s.MakeGauge("thresher_requests_running", "vllm:num_requests_running",
                          "Sequences in the running batch.");
  s.waiting = s.MakeGauge("thresher_requests_waiting", "vllm:num_requests_waiting",
                          "Sequences that wait for their first or next turn.");
  constexpr char kBlocks[] = "thresher_kv_blocks";
  constexpr char kBlocksHelp[] = "Blocks of the KV cache by state; the states sum to the total.";
  s.blocks_free = s.MakeGauge(kBlocks, "", kBlocksHelp, {{"state", "free"}});
  s.blocks_cached = s.MakeGauge(kBlocks, "", kBlocksHelp, {{"state", "cached"}});
  s.blocks_owned = s.MakeGauge(kBlocks, "", kBlocksHelp, {{"state", "owned"}});
  if (s.with_aliases) {
    s.alias_kv_usage = &prometheus::BuildGauge()
                            .Name("vllm:kv_cache_usage_perc")
                            .Help("Share of blocks owned by requests, 0 to 1.")
                            .Register(s.registry)
                            .Add(s.alias_labels);
  }
  for (std::size_t i = 0; i < kOutcomes.size(); ++i) {
    const bool success = i < 2 || kOutcomes[i] == RequestOutcome::kAborted;
    const std::string reason =
        kOutcomes[i] == RequestOutcome::kAborted ? "abort" : kOutcomeNames[i];
    s.requests[i] =
        s.MakeCounter("thresher_requests_total", success ? "vllm:request_success_total" : "",
                      "Requests by how they ended.", {{"outcome", kOutcomeNames[i]}},
                      {{"finished_reason", reason}});
  }
  s.prompt_tokens = s.MakeCounter("thresher_prompt_tokens_total", "vllm:prompt_tokens_total",
                                  "Prompt tokens of requests whose first token has come.");
  s.generated_tokens = s.MakeCounter("thresher_generated_tokens_total",
                                     "vllm:generation_tokens_total", "Tokens generated.");
  s.preemptions = s.MakeCounter("thresher_preemptions_total", "vllm:num_preemptions_total",
                                "Sequences that gave up their blocks to be computed again.");
  s.prefix_queried =
      s.MakeCounter("thresher_prefix_cache_queried_tokens_total", "vllm:prefix_cache_queries_total",
                    "Prompt tokens looked up in the prefix cache.");
  s.prefix_hit =
      s.MakeCounter("thresher_prefix_cache_hit_tokens_total", "vllm:prefix_cache_hits_total",
                    "Prompt tokens that the prefix cache had.");
  s.queue = s.MakeHistogram("thresher_queue_seconds", "vllm:request_queue_time_seconds",
                            "Time from submission to the first step.", kQueue);
  s.first_token =
      s.MakeHistogram("thresher_time_to_first_token_seconds", "vllm:time_to_first_token_seconds",
                      "Time from submission to the first token.", kToFirstToken);
  s.inter_token =
      s.MakeHistogram("thresher_inter_token_seconds", "vllm:inter_token_latency_seconds",
                      "Time between a choice's tokens.", kInterToken);
  s.request = s.MakeHistogram("thresher_request_seconds", "vllm:e2e_request_latency_seconds",
                              "Time from submission to the end.", kRequest);
  s.step = s.MakeHistogram("thresher_step_seconds", "", "Time of one engine step.", kInterToken);
  s.step_tokens = s.MakeHistogram("thresher_step_tokens", "vllm:iteration_tokens_total",
                                  "Query tokens of one engine step.", kStepTokens);
}

MetricsRegistry::~MetricsRegistry() = default;

void MetricsRegistry::OnStep(const StepReport& report) {
  State& s = *state_;
  Set(s.running, report.num_running);
  Set(s.waiting, report.num_waiting);
  Set(s.blocks_free, static_cast<double>(report.blocks_free));
  Set(s.blocks_cached, static_cast<double>(report.blocks_cached));
  Set(s.blocks_owned, static_cast<double>(report.blocks_owned));
  const std::int64_t blocks = report.blocks_free + report.blocks_cached + report.blocks_owned;
  if (s.alias_kv_usage != nullptr && blocks > 0) {
    s.alias_kv_usage->Set(static_cast<double>(report.blocks_owned) / static_cast<double>(blocks));
  }
  const int tokens = report.num_prefill_tokens + report.num_decode_tokens;
  if (tokens > 0) {
    Observe(s.step, absl::ToDoubleSeconds(report.step_time));
    Observe(s.step_tokens, tokens);
  }
  s.AddSince(s.prompt_tokens, report.prompt_tokens, s.last_prompt);
  s.AddSince(s.generated_tokens, report.generated_tokens, s.last_generated);
  s.AddSince(s.preemptions, report.num_preemptions, s.last_preemptions);
  s.AddSince(s.prefix_queried, report.prefix_queried_tokens, s.last_queried);
  s.AddSince(s.prefix_hit, report.prefix_hit_tokens, s.last_hit);
  s.attention.OnStep(report);
}

void MetricsRegistry::OnInterToken(absl::Duration since_last) {
  Observe(state_->inter_token, absl::ToDoubleSeconds(since_last));
}

void MetricsRegistry::OnRequestEnd(const RequestReport& report) {
  State& s = *state_;
  const auto outcome = std::find(kOutcomes.begin(), kOutcomes.end(), report.outcome);
  Add(s.requests[outcome - kOutcomes.begin()], 1);
  if (report.outcome == RequestOutcome::kRejected) return;
  Observe(s.queue, absl::ToDoubleSeconds(report.queue_time));
  Observe(s.request, absl::ToDoubleSeconds(report.total_time));
  if (report.time_to_first_token.has_value()) {
    Observe(s.first_token, absl::ToDoubleSeconds(*report.time_to_first_token));
  }
}

void MetricsRegistry::CountRefused() {
  RequestReport report;
  report.outcome = RequestOutcome::kRejected;
  OnRequestEnd(report);
}

std::string MetricsRegistry::Text() const { return PrometheusText(state_->registry.Collect()); }

}  // namespace thresher
