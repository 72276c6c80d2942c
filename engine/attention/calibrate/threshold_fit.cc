#include "engine/attention/calibrate/threshold_fit.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "engine/attention/calibrate/length_grid.h"
#include "engine/attention/calibrate/survival.h"

namespace thresher {
namespace {

constexpr double kFitOctaves = 3;
// How far beyond the longest length θ must still fall with k.
constexpr double kMonotoneReach = 64;
// Below it a deviation is that of one repeated number, and a z-score by it noise.
constexpr double kSmallestDeviation = 1e-6;

// One (k, head) along the lengths: what was measured at each, if anything.
struct Measured {
  std::optional<double> theta;
  double dropped = 0;      // mean Σ exp(s − m) over dropped keys
  double exponential = 0;  // mean (n − k) · exp(θ − m)
};

struct Line {
  double value = 0, slope = 0;  // at ln n = 0
};

// The least-squares line through points (x, y); nothing for fewer than two.
std::optional<Line> FitLine(const std::vector<std::pair<double, double>>& points) {
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [px, py] : points) {
    x += px;
    y += py;
  }
  const auto count = static_cast<double>(points.size());
  x /= count;
  y /= count;
  for (const auto& [px, py] : points) {
    xx += (px - x) * (px - x);
    xy += (px - x) * (py - y);
  }
  if (points.size() < 2 || xx == 0) return std::nullopt;
  return Line{y - xy / xx * x, xy / xx};
}

// Fits one placement of one layer and head.
class HeadFit final {
 public:
  HeadFit(const std::vector<std::int32_t>& k, const std::vector<std::int32_t>& n, bool post)
      : k_(k), post_(post), measured_(k.size(), std::vector<Measured>(n.size())) {
    for (const std::int32_t length : n) log_n_.push_back(std::log(length));
  }

  void Measure(std::size_t n_index, const Survival& survival) {
    for (std::size_t i = 0; i < k_.size(); ++i) {
      if (k_[i] >= survival.mean_length()) continue;
      Measured& cell = measured_[i][n_index];
      cell.theta = survival.ThresholdFor(k_[i]);
      if (post_) continue;
      cell.dropped = survival.WeightBelow(*cell.theta);
      cell.exponential = (survival.mean_length() - k_[i]) * survival.WeightAt(*cell.theta);
    }
  }

  // After the last Measure. θ and dropped of every length, the slope, and gamma.
  void Finish() {
    for (std::size_t i = 0; i < k_.size(); ++i) {
      slopes.push_back(SlopeOf(i));
      thetas.push_back(Filled(i, slopes[i]));
      gammas.push_back(GammaOf(i));
      FillDropped(i);
      if (i == 0) continue;
      for (std::size_t n = 0; n < log_n_.size(); ++n) {
        thetas[i][n] = std::min(thetas[i][n], thetas[i - 1][n]);
      }
      const double gap = thetas[i - 1].back() - thetas[i].back();
      slopes[i] = std::min(slopes[i], slopes[i - 1] + gap / std::log(kMonotoneReach));
    }
  }

  double dropped(std::size_t k, std::size_t n) const { return measured_[k][n].dropped; }

  std::vector<std::vector<double>> thetas;  // [num_k][num_n]
  std::vector<double> slopes, gammas;       // [num_k]

 private:
  std::vector<std::pair<double, double>> PointsFrom(std::size_t k, double shortest) const {
    std::vector<std::pair<double, double>> points;
    for (std::size_t n = 0; n < log_n_.size(); ++n) {
      const auto& theta = measured_[k][n].theta;
      if (theta.has_value() && log_n_[n] >= shortest) points.emplace_back(log_n_[n], *theta);
    }
    return points;
  }

  // The longest length that was measured for this k; the last one if none was.
  std::size_t LastMeasured(std::size_t k) const {
    std::size_t n = log_n_.size() - 1;
    while (n > 0 && !measured_[k][n].theta.has_value()) --n;
    return measured_[k][n].theta.has_value() ? n : log_n_.size() - 1;
  }

  double FitStart() const { return log_n_.back() - kFitOctaves * std::log(2.0) - 1e-6; }

  // dθ / d ln n at the end. Close to k the quantile moves faster than its tail does, so lengths
  // below 2 k do not count; where too few are left, the scores' own tail at the longest length
  // tells it: of a distribution that is the same at all lengths, θ(k, r n) = θ(k / r, n).
  double SlopeOf(std::size_t k) const {
    const double shortest = std::max(FitStart(), std::log(2.0 * k_[k]));
    const auto points = PointsFrom(k, shortest);
    double slope = 0;
    if (const auto line = FitLine(points); line.has_value() && points.size() >= 4) {
      slope = line->slope;
    } else if (!post_) {
      std::vector<std::pair<double, double>> tail;
      for (std::size_t i = 0; i <= k; ++i) {
        const auto& theta = measured_[i][LastMeasured(k)].theta;
        if (theta.has_value() && 4 * k_[i] >= k_[k]) tail.emplace_back(-std::log(k_[i]), *theta);
      }
      if (const auto along_k = FitLine(tail)) slope = along_k->slope;
    } else if (k > 0) {
      slope = slopes[k - 1];  // LSE moves with n too, so the tail alone does not tell it
    } else if (line.has_value()) {
      slope = line->slope;
    }
    return post_ ? std::min(slope, 0.0) : std::max(slope, 0.0);
  }

  // θ at every length: measured, or on the line between its neighbours; before the first along the
  // first two, after the last along the slope.
  std::vector<double> Filled(std::size_t k, double slope) const {
    const auto points = PointsFrom(k, 0);
    std::vector<double> filled;
    for (const double x : log_n_) {
      const auto above =
          std::lower_bound(points.begin(), points.end(), std::pair{x - 1e-9, -1e300});
      if (points.empty()) {
        filled.push_back(ScoreBins::kLowest);
      } else if (above == points.end()) {
        filled.push_back(points.back().second + slope * (x - points.back().first));
      } else if (std::abs(above->first - x) < 1e-9) {
        filled.push_back(above->second);
      } else {
        const auto second = above == points.begin() ? above + 1 : above;
        if (second == points.end()) {
          filled.push_back(points.front().second);
          continue;
        }
        const auto first = second - 1;
        const double along = (x - first->first) / (second->first - first->first);
        filled.push_back(first->second + along * (second->second - first->second));
      }
    }
    return filled;
  }

  // A length without rows takes its shorter neighbour's mass, or else its longer one's. Rows no
  // longer than k drop nothing.
  void FillDropped(std::size_t k) {
    std::vector<Measured>& cells = measured_[k];
    for (std::size_t n = 0; n < cells.size(); ++n) {
      if (cells[n].theta.has_value() || log_n_[n] <= std::log(k_[k])) continue;
      std::size_t from = n;
      while (from < cells.size() && !cells[from].theta.has_value()) ++from;
      if (n > 0 && cells[n - 1].dropped > 0) from = n - 1;
      if (from < cells.size()) cells[n].dropped = cells[from].dropped;
    }
  }

  double GammaOf(std::size_t k) const {
    double dropped = 0, exponential = 0;
    for (std::size_t n = 0; n < log_n_.size(); ++n) {
      const Measured& cell = measured_[k][n];
      if (!cell.theta.has_value() || log_n_[n] < FitStart() || cell.exponential == 0) continue;
      dropped += cell.dropped;
      exponential += cell.exponential;
    }
    // Without data the upper bound of the paper's form.
    return exponential > 0 ? dropped / exponential : 1;
  }

  const std::vector<std::int32_t>& k_;
  const bool post_;
  std::vector<double> log_n_;
  std::vector<std::vector<Measured>> measured_;  // [num_k][num_n]
};

PlacementThresholds FitPlacement(const ScoreStatistics& statistics, const ThresholdContents& table,
                                 ThresholdPlacement placement) {
  const bool post = placement == ThresholdPlacement::kPost;
  const std::size_t num_k = table.k.size(), num_n = table.n.size();
  const auto num_heads = static_cast<std::size_t>(table.num_heads);
  const std::size_t rows = static_cast<std::size_t>(table.num_layers) * num_k;
  PlacementThresholds made;
  made.theta.resize(rows * num_n * num_heads);
  made.slope.resize(rows * num_heads);
  if (!post) {
    made.dropped.resize(made.theta.size());
    made.gamma.resize(made.slope.size());
  }
  for (int layer = 0; layer < table.num_layers; ++layer) {
    for (std::size_t head = 0; head < num_heads; ++head) {
      HeadFit fit(table.k, table.n, post);
      for (std::size_t n = 0; n < num_n; ++n) {
        if (statistics.samples[n] == 0) continue;
        fit.Measure(n, Survival(statistics.At(layer, static_cast<int>(n), static_cast<int>(head)),
                                placement, statistics.samples[n]));
      }
      fit.Finish();
      for (std::size_t k = 0; k < num_k; ++k) {
        const std::size_t row = static_cast<std::size_t>(layer) * num_k + k;
        made.slope[row * num_heads + head] = static_cast<float>(fit.slopes[k]);
        if (!post) made.gamma[row * num_heads + head] = static_cast<float>(fit.gammas[k]);
        for (std::size_t n = 0; n < num_n; ++n) {
          const std::size_t at = (row * num_n + n) * num_heads + head;
          made.theta[at] = static_cast<float>(fit.thetas[k][n]);
          if (!post) made.dropped[at] = static_cast<float>(fit.dropped(k, n));
        }
      }
    }
  }
  return made;
}

ValueMoments FitValues(const ScoreStatistics& statistics) {
  ValueMoments values;
  const auto deviation = [](double sum, double squares, double count) {
    const double variance = (squares - sum * sum / count) / std::max(count - 1, 1.0);
    return static_cast<float>(std::max(std::sqrt(std::max(variance, 0.0)), kSmallestDeviation));
  };
  for (const ValueSums& sums : statistics.value_moments) {
    const auto count = static_cast<double>(sums.num_groups);
    values.mean.push_back(static_cast<float>(sums.log_norm / count));
    values.std.push_back(deviation(sums.log_norm, sums.log_norm_squared, count));
    values.centred_mean.push_back(static_cast<float>(sums.centred_log_norm / count));
    values.centred_std.push_back(
        deviation(sums.centred_log_norm, sums.centred_log_norm_squared, count));
  }
  values.mean_value = statistics.MeanValues();
  return values;
}

}  // namespace

ThresholdContents FitThresholds(const ScoreStatistics& statistics, ModelFingerprint fingerprint) {
  const StatisticsShape& shape = statistics.shape();
  ThresholdContents table;
  table.fingerprint = std::move(fingerprint);
  table.num_layers = shape.num_layers;
  table.num_heads = shape.num_heads;
  table.num_kv_heads = shape.num_kv_heads;
  table.head_dim = shape.head_dim;
  table.n = shape.lengths;
  table.k = TargetGrid(shape.lengths.back());
  table.samples = statistics.samples;
  for (int p = 0; p < kNumPlacements; ++p) {
    table.placements[static_cast<std::size_t>(p)] =
        FitPlacement(statistics, table, static_cast<ThresholdPlacement>(p));
  }
  if (statistics.value_tokens > 0 && statistics.value_moments[0].num_groups > 0) {
    table.values = FitValues(statistics);
  }
  return table;
}

}  // namespace thresher
