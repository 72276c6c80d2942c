// What a calibration has seen so far.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops/score_observer.h"

namespace thresher {

struct StatisticsShape {
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  std::vector<std::int32_t> lengths;  // LengthGrid
  friend bool operator==(const StatisticsShape&, const StatisticsShape&) = default;
};

// 28 KB for each (layer, length, head). One thread at a time.
class ScoreStatistics final {
 public:
  explicit ScoreStatistics(StatisticsShape shape);

  const StatisticsShape& shape() const { return shape_; }
  // [num_lengths, num_heads] of a layer, for ScoreObserver.
  std::span<ScoreHistogram> Layer(int layer);
  const ScoreHistogram& At(int layer, int length_index, int head) const;
  std::span<const ScoreHistogram> all() const { return histograms_; }
  std::span<ScoreHistogram> all() { return histograms_; }

  // Rows that each length has (every layer and head has the same ones).
  std::vector<std::int64_t> samples;  // [num_lengths]
  std::uint64_t outside = 0;          // scores beyond the bins, over layers and heads

  // Of values, by (layer, KV head). The mean is that of the first windows, see Calibrator.
  std::vector<ValueSums> value_moments;  // [num_layers, num_kv_heads]
  std::vector<double> value_totals;      // [num_layers, num_kv_heads, head_dim]
  std::int64_t value_tokens = 0;         // tokens in value_totals

  // value_totals / value_tokens, as f32.
  std::vector<float> MeanValues() const;

 private:
  StatisticsShape shape_;
  std::vector<ScoreHistogram> histograms_;  // [num_layers, num_lengths, num_heads]
};

}  // namespace thresher
