#include "server/metrics/attention_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string>
#include <utility>

namespace thresher {
namespace {

using prometheus::Counter;
using prometheus::Histogram;
using prometheus::Labels;

// What is counted for each level and policy.
struct SeriesMetric {
  const char* name;
  std::int64_t AttentionCounts::*count;
  const char* help;
};
constexpr std::array<SeriesMetric, 7> kSeries = {{
    {"thresher_attention_v_rows_total", &AttentionCounts::value_rows,
     "Rows of V that dense attention would have read in decode."},
    {"thresher_attention_v_rows_read_total", &AttentionCounts::value_rows_read,
     "Rows of V that decode read."},
    {"thresher_attention_k_rows_read_total", &AttentionCounts::key_rows_read,
     "Rows of K that decode read."},
    {"thresher_attention_kv_bytes_read_total", &AttentionCounts::kv_bytes_read,
     "Bytes of K and V that decode read."},
    {"thresher_attention_kv_bytes_dense_total", &AttentionCounts::kv_bytes_dense,
     "Bytes of K and V that dense attention would have read in decode."},
    {"thresher_attention_blocks_total", &AttentionCounts::blocks,
     "Causal pairs of 128-token blocks of prompts."},
    {"thresher_attention_blocks_selected_total", &AttentionCounts::blocks_selected,
     "Pairs of 128-token blocks that prompts read."},
}};

// Bounds as their decimals read: 0.67, not the float that is nearest to it.
template <typename Bounds>
Histogram::BucketBoundaries Boundaries(const Bounds& bounds) {
  Histogram::BucketBoundaries boundaries;
  for (const float bound : bounds) {
    char digits[40];
    const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), bound);
    double boundary = 0;
    std::from_chars(digits, end.ptr, boundary);
    boundaries.push_back(boundary);
  }
  return boundaries;
}

}  // namespace

struct AttentionMetrics::State {
  struct Series {
    std::array<Counter*, kSeries.size()> counters;
    std::array<Counter*, kNumDenseFallbacks> fallbacks;
  };

  explicit State(prometheus::Registry& target) : registry(target) {}

  // Registered once for each level and policy, whatever the engine's order.
  const Series& SeriesOf(const std::string& level, const std::string& policy) {
    const auto found = known.find({level, policy});
    if (found != known.end()) return found->second;
    const Labels labels = {{"level", level}, {"policy", policy}};
    Series series;
    for (std::size_t i = 0; i < kSeries.size(); ++i) {
      series.counters[i] = &prometheus::BuildCounter()
                                .Name(kSeries[i].name)
                                .Help(kSeries[i].help)
                                .Register(registry)
                                .Add(labels);
    }
    for (std::size_t i = 0; i < kNumDenseFallbacks; ++i) {
      Labels with_reason = labels;
      with_reason.emplace("reason", kDenseFallbackNames[i]);
      series.fallbacks[i] = &prometheus::BuildCounter()
                                 .Name("thresher_attention_dense_fallback_total")
                                 .Help(
                                     "Prompts and decoded tokens that a sparse policy computed "
                                     "densely, by reason.")
                                 .Register(registry)
                                 .Add(with_reason);
    }
    return known.emplace(std::pair(level, policy), series).first->second;
  }

  template <typename Bounds>
  Histogram& MakeHistogram(const char* name, const char* help, const Bounds& bounds,
                           const Labels& labels) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(
        labels, Boundaries(bounds));
  }

  template <typename Buckets>
  void Observe(Histogram& histogram, const Buckets& buckets, double sum) {
    if (std::all_of(buckets.begin(), buckets.end(), [](auto count) { return count == 0; })) return;
    increments.assign(buckets.begin(), buckets.end());
    histogram.ObserveMultiple(increments, sum);
  }

  prometheus::Registry& registry;
  std::map<std::pair<std::string, std::string>, Series> known;
  std::vector<const Series*> by_index;  // of StepReport::attention
  std::array<Histogram*, kNumRowLengths> selected_per_target, dropped_mass;
  Histogram* output_error = nullptr;
  Counter* token_mismatch = nullptr;
  Counter* shadow_tokens = nullptr;
  std::vector<double> increments;
};

AttentionMetrics::AttentionMetrics(const std::vector<AttentionChoice>& levels,
                                   prometheus::Registry& registry)
    : state_(std::make_unique<State>(registry)) {
  State& s = *state_;
  for (const AttentionChoice& level : levels) {
    s.SeriesOf(level.level, level.prefill.policy);
    s.SeriesOf(level.level, level.decode.policy);
  }
  for (std::size_t i = 0; i < kNumRowLengths; ++i) {
    const Labels labels = {{"row_length", std::string(kRowLengthNames[i])}};
    s.selected_per_target[i] =
        &s.MakeHistogram("thresher_attention_selected_per_target",
                         "Keys that a thresholded head kept over its target k, by row length.",
                         kTargetRatioBounds, labels);
    s.dropped_mass[i] =
        &s.MakeHistogram("thresher_attention_dropped_mass",
                         "Softmax mass that a thresholded head left out, by row length.",
                         kDroppedMassBounds, labels);
  }
  s.output_error = &s.MakeHistogram(
      "thresher_attention_output_relative_error",
      "Distance of a layer's sparse output from the dense one on the same inputs, over the dense "
      "one's size, in sampled steps.",
      kOutputErrorBounds, {});
  s.token_mismatch = &prometheus::BuildCounter()
                          .Name("thresher_attention_shadow_token_mismatch_total")
                          .Help(
                              "Tokens of sampled steps whose most likely one differs from that of "
                              "dense attention.")
                          .Register(registry)
                          .Add({});
  s.shadow_tokens = &prometheus::BuildCounter()
                         .Name("thresher_attention_shadow_tokens_total")
                         .Help("Tokens that sampled steps compared with dense attention.")
                         .Register(registry)
                         .Add({});
}

AttentionMetrics::~AttentionMetrics() = default;

void AttentionMetrics::OnStep(const StepReport& report) {
  State& s = *state_;
  for (std::size_t i = s.by_index.size(); i < report.attention.size(); ++i) {
    s.by_index.push_back(&s.SeriesOf(report.attention[i].level, report.attention[i].policy));
  }
  for (std::size_t i = 0; i < report.attention.size(); ++i) {
    const AttentionCounts& counts = report.attention[i].counts;
    const State::Series& series = *s.by_index[i];
    for (std::size_t m = 0; m < kSeries.size(); ++m) {
      const std::int64_t count = counts.*kSeries[m].count;
      if (count > 0) series.counters[m]->Increment(static_cast<double>(count));
    }
    for (std::size_t r = 0; r < kNumDenseFallbacks; ++r) {
      const std::int64_t count = counts.dense_fallbacks[r];
      if (count > 0) series.fallbacks[r]->Increment(static_cast<double>(count));
    }
  }
  for (std::size_t i = 0; i < kNumRowLengths; ++i) {
    const ThresholdFidelity& fidelity = report.fidelity[i];
    s.Observe(*s.selected_per_target[i], fidelity.ratio_buckets, fidelity.ratio_sum);
    s.Observe(*s.dropped_mass[i], fidelity.dropped_mass_buckets, fidelity.dropped_mass_sum);
  }
  const ShadowReport& shadow = report.shadow;
  s.Observe(*s.output_error, shadow.output_error_buckets, shadow.output_error_sum);
  if (shadow.num_tokens > 0) s.shadow_tokens->Increment(static_cast<double>(shadow.num_tokens));
  if (shadow.num_token_mismatches > 0) {
    s.token_mismatch->Increment(static_cast<double>(shadow.num_token_mismatches));
  }
}

}  // namespace thresher
