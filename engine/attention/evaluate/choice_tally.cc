#include "engine/attention/evaluate/choice_tally.h"

#include <cmath>
#include <numeric>

namespace thresher {
namespace {

constexpr int kResamples = 2000;

double Share(double part, double whole, double otherwise) {
  return whole > 0 ? part / whole : otherwise;
}

Interval AsIncrease(const Interval& log_ratio) {
  return {std::expm1(log_ratio.mean), std::expm1(log_ratio.lower), std::expm1(log_ratio.upper)};
}

}  // namespace

void ChoiceTally::Add(int position, const LogitComparison& comparison) {
  if (position < first_position_) return;
  if (!stretch_open_ || kl_.back().count == kStretch) {
    kl_.emplace_back();
    nll_increase_.emplace_back();
    same_top_.emplace_back();
    stretch_open_ = true;
  }
  ++num_tokens_;
  const auto add = [](StretchSum& stretch, double value) {
    stretch.sum += value;
    ++stretch.count;
  };
  add(kl_.back(), comparison.kl);
  add(nll_increase_.back(), comparison.sparse_nll - comparison.dense_nll);
  add(same_top_.back(), comparison.same_top ? 1 : 0);
  Sums& sums = by_length_[RowLengthIndex(position + 1)];
  ++sums.tokens;
  sums.same_top += comparison.same_top ? 1 : 0;
  sums.dense_nll += comparison.dense_nll;
  sums.sparse_nll += comparison.sparse_nll;
  sums.kl += comparison.kl;
}

void ChoiceTally::Add(int row_length, bool at_end, const StepAttentionReport& report) {
  for (const AttentionCounts& counts : report.sequences) {
    counts_.Add(counts);
    if (at_end) counts_at_end_.Add(counts);
    Sums& sums = by_length_[RowLengthIndex(row_length)];
    sums.value_rows += counts.value_rows;
    sums.value_rows_read += counts.value_rows_read;
  }
  for (std::size_t i = 0; i < kNumRowLengths; ++i) {
    const ThresholdFidelity& fidelity = report.fidelity[i];
    Sums& sums = by_length_[i];
    sums.ratio_count += std::accumulate(fidelity.ratio_buckets.begin(),
                                        fidelity.ratio_buckets.end(), std::int64_t{0});
    sums.ratio_sum += fidelity.ratio_sum;
    sums.dropped_mass_sum += fidelity.dropped_mass_sum;
  }
  shadow_.output_error_sum += report.shadow.output_error_sum;
  for (std::size_t i = 0; i < shadow_.output_error_buckets.size(); ++i) {
    shadow_.output_error_buckets[i] += report.shadow.output_error_buckets[i];
  }
}

void ChoiceTally::AddSurvivors(std::span<const std::int32_t> survivors,
                               std::span<const int> targets, int context_length, int num_rows) {
  if (targets.empty()) return;
  const std::size_t of_layer = survivors.size() / targets.size();
  const std::size_t num_heads = of_layer / static_cast<std::size_t>(num_rows);
  head_ratios_.resize(targets.size() * num_heads);
  head_rows_.resize(head_ratios_.size());
  for (std::size_t i = 0; i < survivors.size(); ++i) {
    const std::size_t layer = i / of_layer;
    const std::int64_t num_keys =
        context_length + static_cast<std::int64_t>(i % of_layer / num_heads) + 1;
    own_rows_ += num_keys;
    own_rows_read_ += survivors[i] < 0 ? num_keys : survivors[i];
    if (survivors[i] < 0) continue;
    const std::size_t at = layer * num_heads + i % num_heads;
    head_ratios_[at] += static_cast<double>(survivors[i]) / targets[layer];
    ++head_rows_[at];
  }
}

double ChoiceTally::dense_perplexity() const {
  double nll = 0;
  for (const Sums& sums : by_length_) nll += sums.dense_nll;
  return std::exp(Share(nll, static_cast<double>(num_tokens_), 0));
}

ChoiceReading ChoiceTally::Read(std::uint64_t seed) const {
  ChoiceReading reading;
  reading.kl = BootstrapMean(kl_, kResamples, seed);
  reading.perplexity_increase = AsIncrease(BootstrapMean(nll_increase_, kResamples, seed));
  reading.top_agreement = BootstrapMean(same_top_, kResamples, seed);
  reading.perplexity = dense_perplexity() * (1 + reading.perplexity_increase.mean);
  const auto share_of = [](const AttentionCounts& counts) {
    return Share(static_cast<double>(counts.value_rows_read),
                 static_cast<double>(counts.value_rows), 1);
  };
  reading.value_row_share = share_of(counts_);
  reading.value_row_share_at_end = share_of(counts_at_end_);
  reading.value_row_share_of_heads =
      Share(static_cast<double>(own_rows_read_), static_cast<double>(own_rows_), 1);
  reading.block_density =
      Share(static_cast<double>(counts_.blocks_selected), static_cast<double>(counts_.blocks), 1);
  const std::int64_t num_errors = std::accumulate(
      shadow_.output_error_buckets.begin(), shadow_.output_error_buckets.end(), std::int64_t{0});
  reading.output_error = Share(shadow_.output_error_sum, static_cast<double>(num_errors), 0);
  int num_heads = 0, num_within = 0;
  for (std::size_t i = 0; i < head_rows_.size(); ++i) {
    if (head_rows_[i] == 0) continue;  // a dense layer
    const double ratio = head_ratios_[i] / static_cast<double>(head_rows_[i]);
    ++num_heads;
    num_within += ratio >= 0.5 && ratio <= 2 ? 1 : 0;
  }
  if (num_heads > 0) reading.heads_within_target = Share(num_within, num_heads, 0);
  for (std::size_t i = 0; i < kNumRowLengths; ++i) {
    const Sums& sums = by_length_[i];
    const auto tokens = static_cast<double>(sums.tokens);
    const auto ratios = static_cast<double>(sums.ratio_count);
    reading.buckets.push_back(
        {.label = std::string(kRowLengthNames[i]),
         .num_tokens = sums.tokens,
         .kl = Share(sums.kl, tokens, 0),
         .top_agreement = Share(static_cast<double>(sums.same_top), tokens, 1),
         .perplexity_increase = std::expm1(Share(sums.sparse_nll - sums.dense_nll, tokens, 0)),
         .selected_per_target = Share(sums.ratio_sum, ratios, 0),
         .dropped_mass = Share(sums.dropped_mass_sum, ratios, 0),
         .value_row_share = Share(static_cast<double>(sums.value_rows_read),
                                  static_cast<double>(sums.value_rows), 1)});
  }
  return reading;
}

}  // namespace thresher
