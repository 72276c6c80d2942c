#include "engine/attention/calibrate/threshold_fit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "engine/attention/calibrate/length_grid.h"
#include "engine/attention/calibrate/survival.h"
#include "engine/attention/threshold_table.h"
#include "gtest/gtest.h"

namespace thresher {
namespace {

// Scores of rows drawn from a distribution, as an observer would count them.
class DrawnScores final {
 public:
  using Draw = std::function<double(std::mt19937_64&)>;

  DrawnScores(int max_length, int rows_per_length, Draw draw)
      : statistics({.num_layers = 1,
                    .num_heads = 1,
                    .num_kv_heads = 1,
                    .head_dim = 8,
                    .lengths = LengthGrid(max_length)}),
        draw_(std::move(draw)) {
    for (std::size_t b = 0; b < statistics.shape().lengths.size(); ++b) {
      for (int row = 0; row < rows_per_length; ++row) AddRow(b);
    }
  }

  std::vector<double> Row(int length) {
    std::vector<double> row(static_cast<std::size_t>(length));
    for (double& score : row) score = draw_(random_);
    return row;
  }

  void AddRow(std::size_t bucket) {
    const std::vector<double> row = Row(statistics.shape().lengths[bucket]);
    ScoreHistogram& histogram = statistics.Layer(0)[bucket];
    const double largest = *std::max_element(row.begin(), row.end());
    double mean = 0, sum = 0;
    for (const double s : row) {
      mean += s / static_cast<double>(row.size());
      sum += std::exp(s - largest);
    }
    for (const double s : row) {
      const double values[3] = {s, s - mean, s - largest - std::log(sum)};
      for (int p = 0; p < 3; ++p) {
        const int bin =
            std::clamp(static_cast<int>((values[p] - ScoreBins::kLowest) / ScoreBins::kWidth), 0,
                       ScoreBins::kNumBins - 1);
        ++histogram.count[p][bin];
        if (p < 2) histogram.weight[p][bin / ScoreBins::kBinsPerWeight] += std::exp(s - largest);
      }
    }
    ++statistics.samples[bucket];
    rows.emplace_back(bucket, row);
  }

  ScoreStatistics statistics;
  std::vector<std::pair<std::size_t, std::vector<double>>> rows;  // bucket, scores

 private:
  Draw draw_;
  std::mt19937_64 random_{11};
};

double Exponential(std::mt19937_64& random) {
  return -std::log((static_cast<double>(random() >> 11) + 0.5) * 0x1p-53);
}
double Normal(std::mt19937_64& random) {
  double sum = 0;
  for (int i = 0; i < 12; ++i) sum += static_cast<double>(random() >> 11) * 0x1p-53;
  return 2 * (sum - 6);
}

int CountAbove(const std::vector<double>& row, double threshold) {
  return static_cast<int>(
      std::count_if(row.begin(), row.end(), [&](double s) { return s > threshold; }));
}

// Item 19 of the specification's oracle: mean survivors are k on the calibration's own rows, up to
// what one bin holds.
TEST(ThresholdFit, Item19MeetsEveryTargetOnItsOwnRows) {
  DrawnScores drawn(1024, 40, Normal);
  const ThresholdContents table = FitThresholds(drawn.statistics, {});
  ASSERT_TRUE(table.Validate().ok()) << table.Validate();
  for (std::size_t k = 0; k < table.k.size(); ++k) {
    for (std::size_t n = 0; n < table.n.size(); ++n) {
      if (table.k[k] >= table.n[n]) continue;
      const double theta = table.placements[0].theta[k * table.n.size() + n];
      double survivors = 0, in_bin = 0;
      for (const auto& [bucket, row] : drawn.rows) {
        if (bucket != n) continue;
        survivors += CountAbove(row, theta) / 40.0;
        in_bin += (CountAbove(row, theta - ScoreBins::kWidth) -
                   CountAbove(row, theta + ScoreBins::kWidth)) /
                  40.0;
      }
      EXPECT_NEAR(survivors, table.k[k], in_bin + 1e-6)
          << "k " << table.k[k] << " n " << table.n[n];
      EXPECT_NEAR(survivors, table.k[k], 0.05 * table.k[k] + 1) << "k " << table.k[k];
    }
  }
}

// The dropped mass and the exponential form's gamma, recomputed from the rows.
TEST(ThresholdFit, KeepsTheMassOfTheDropped) {
  DrawnScores drawn(512, 40, Normal);
  const ThresholdContents table = FitThresholds(drawn.statistics, {});
  const PlacementThresholds& pre = table.placements[0];
  for (std::size_t k = 0; k < table.k.size(); ++k) {
    const std::size_t n = table.n.size() - 1;
    const double theta = pre.theta[k * table.n.size() + n];
    double dropped = 0;
    for (const auto& [bucket, row] : drawn.rows) {
      if (bucket != n) continue;
      const double largest = *std::max_element(row.begin(), row.end());
      for (const double s : row) dropped += s > theta ? 0 : std::exp(s - largest) / 40;
    }
    EXPECT_NEAR(pre.dropped[k * table.n.size() + n], dropped, 0.02 * dropped);
    EXPECT_GT(pre.gamma[k], 0);
    EXPECT_LE(pre.gamma[k], 1.05);  // an upper bound for all dropped scores at the threshold
  }
}

// Item 15: at any k and length, grid point or not, calibrated or beyond.
TEST(ThresholdFit, Item15NeverRisesWithK) {
  for (const auto& draw : {DrawnScores::Draw(Normal), DrawnScores::Draw(Exponential)}) {
    const DrawnScores drawn(2048, 4, draw);
    auto table = ThresholdTable::Create(FitThresholds(drawn.statistics, {}));
    ASSERT_TRUE(table.ok()) << table.status();
    for (int placement = 0; placement < kNumPlacements; ++placement) {
      const auto grid = (*table)->GridOf(0, static_cast<ThresholdPlacement>(placement), 0, 1);
      ASSERT_TRUE(grid.ok());
      for (const int n : {20, 64, 70, 200, 1000, 2048, 3000, 20000, 2048 * 64}) {
        float last = 1e30f;
        for (int k = 8; k < 3000; k += k / 8) {
          const float theta = ThresholdAt(*grid, PlaceThreshold(*grid, k, n), 0);
          // Interpolation in f32 rounds.
          EXPECT_LE(theta, last + 1e-5f) << "placement " << placement << " k " << k << " n " << n;
          last = theta;
        }
      }
    }
  }
}

// Item 20: exponential tails, calibrated at 1,024 and used at 16 times that: along the slope within
// 10 % of k, at the nearest row 16 times too many.
TEST(ThresholdFit, Item20ExtrapolatesAlongTheSlopeOfExponentialTails) {
  DrawnScores drawn(1024, 400, Exponential);
  ThresholdContents contents = FitThresholds(drawn.statistics, {});
  for (const ThresholdLookup lookup : {ThresholdLookup::kBilinear, ThresholdLookup::kNearest}) {
    contents.lookup = lookup;
    const auto table = ThresholdTable::Create(contents);
    ASSERT_TRUE(table.ok());
    const auto grid = (*table)->GridOf(0, ThresholdPlacement::kPre, 0, 1);
    ASSERT_TRUE(grid.ok());
    const int n = 16 * 1024;
    for (const int k : {32, 64, 128}) {
      const double theta = ThresholdAt(*grid, PlaceThreshold(*grid, k, n), 0);
      const double survivors = n * std::exp(-theta);  // of the distribution itself
      const double wanted = lookup == ThresholdLookup::kBilinear ? k : 16 * k;
      EXPECT_NEAR(survivors / wanted, 1, 0.1) << "k " << k;
    }
  }
}

TEST(ThresholdFit, FillsLengthsWithoutRows) {
  DrawnScores full(1024, 60, Exponential), gaps(1024, 0, Exponential);
  for (std::size_t n = 0; n < full.statistics.shape().lengths.size(); ++n) {
    if (n == 6 || n == 0 || n == full.statistics.shape().lengths.size() - 1) continue;
    for (int row = 0; row < 60; ++row) gaps.AddRow(n);
  }
  const ThresholdContents expected = FitThresholds(full.statistics, {});
  const ThresholdContents filled = FitThresholds(gaps.statistics, {});
  EXPECT_TRUE(filled.Validate().ok()) << filled.Validate();
  const std::size_t num_n = filled.n.size();
  for (const std::size_t n : {std::size_t{0}, std::size_t{6}, num_n - 1}) {
    EXPECT_EQ(filled.samples[n], 0);
    for (std::size_t k = 0; k < filled.k.size(); ++k) {
      if (2 * filled.k[k] > filled.n[n]) continue;
      EXPECT_NEAR(filled.placements[0].theta[k * num_n + n],
                  expected.placements[0].theta[k * num_n + n], 0.15)
          << "k " << filled.k[k] << " n " << filled.n[n];
      EXPECT_GT(filled.placements[0].dropped[k * num_n + n], 0);
    }
  }
}

TEST(LengthGrid, CoversTheLengthsWithSeparateBuckets) {
  for (const int longest : {64, 65, 100, 1024, 1100, 8192}) {
    const std::vector<std::int32_t> lengths = LengthGrid(longest);
    EXPECT_EQ(lengths.back(), longest);
    const std::vector<LengthBucket> buckets = BucketsOf(lengths);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      EXPECT_LE(buckets[i].shortest, lengths[i]);
      EXPECT_GE(buckets[i].longest, lengths[i]);
      if (i > 0) {
        EXPECT_GT(buckets[i].shortest, buckets[i - 1].longest);
      }
    }
    for (const std::int32_t k : TargetGrid(longest)) EXPECT_LT(k, longest);
  }
  EXPECT_EQ(LengthGrid(8192).size(), 29u);
  EXPECT_EQ(TargetGrid(8192).size(), 17u);
}

TEST(LengthGrid, SamplesDistinctRowsOfTheirBuckets) {
  const std::vector<std::int32_t> lengths = LengthGrid(1024);
  const std::vector<LengthBucket> buckets = BucketsOf(lengths);
  const std::vector<std::int64_t> limits(buckets.size(), 20);
  const RowSample sample = SampleRows(buckets, limits, 700, 5);
  for (std::size_t i = 0; i < sample.rows.size(); ++i) {
    const LengthBucket& bucket = buckets[static_cast<std::size_t>(sample.buckets[i])];
    EXPECT_GE(sample.rows[i] + 1, bucket.shortest);
    EXPECT_LE(sample.rows[i] + 1, std::min(bucket.longest, 700));
    if (i > 0) {
      EXPECT_GT(sample.rows[i], sample.rows[i - 1]);
    }
  }
  EXPECT_EQ(std::count(sample.buckets.begin(), sample.buckets.end(), 8), 20);
  EXPECT_EQ(std::count(sample.buckets.begin(), sample.buckets.end(), 16), 0);
  EXPECT_NE(sample.rows, SampleRows(buckets, limits, 700, 6).rows);
  EXPECT_EQ(sample.rows, SampleRows(buckets, limits, 700, 5).rows);
}

}  // namespace
}  // namespace thresher
