#include "engine/attention/calibrate/score_statistics.h"

#include <utility>

namespace thresher {

ScoreStatistics::ScoreStatistics(StatisticsShape shape) : shape_(std::move(shape)) {
  const auto layers = static_cast<std::size_t>(shape_.num_layers);
  const auto kv_heads = layers * static_cast<std::size_t>(shape_.num_kv_heads);
  histograms_.resize(layers * shape_.lengths.size() * static_cast<std::size_t>(shape_.num_heads));
  samples.resize(shape_.lengths.size());
  value_moments.resize(kv_heads);
  value_totals.resize(kv_heads * static_cast<std::size_t>(shape_.head_dim));
}

std::span<ScoreHistogram> ScoreStatistics::Layer(int layer) {
  const std::size_t size = shape_.lengths.size() * static_cast<std::size_t>(shape_.num_heads);
  return std::span(histograms_).subspan(static_cast<std::size_t>(layer) * size, size);
}

const ScoreHistogram& ScoreStatistics::At(int layer, int length_index, int head) const {
  const auto lengths = static_cast<int>(shape_.lengths.size());
  return histograms_[static_cast<std::size_t>((layer * lengths + length_index) * shape_.num_heads +
                                              head)];
}

std::vector<float> ScoreStatistics::MeanValues() const {
  std::vector<float> means;
  means.reserve(value_totals.size());
  for (const double total : value_totals) {
    means.push_back(static_cast<float>(total / static_cast<double>(value_tokens)));
  }
  return means;
}

}  // namespace thresher
