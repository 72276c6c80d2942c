// The oracle of top_theta.md §14, items 1 to 11 and 16: what the numbers of one row must be. Scores
// are multiples of 1/8 that f32 and bf16 hold exactly, so that selections are exact too.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "kernels/backend.h"
#include "tests/support/cpu_backends.h"
#include "tests/support/reference/numbers.h"
#include "tests/support/reference/threshold_reference.h"

namespace thresher {
namespace {

constexpr int kDim = 64;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
using P = ThresholdPlacement;
using D = DroppedDenominator;

// One query, one head, n keys; score i is (place(i) + shift) / 8, places a permutation of 0 … n − 1
// unless told otherwise.
class OneRow final {
 public:
  explicit OneRow(int n, int shift = 0, const std::function<int(int)>& place = {})
      : attention({.num_heads = 1, .num_kv_heads = 1, .head_dim = kDim, .kv_dtype = DType::kF32},
                  {{n - 1, 1, 1}}) {
    std::vector<float> vector(kDim);
    vector[0] = vector[1] = vector[2] = 1;
    std::copy(vector.begin(), vector.end(), attention.Query(0, 0).begin());
    for (int i = 0; i < n; ++i) {
      const int at = place ? place(i) : i * 37 % n;
      vector[0] = static_cast<float>(at % 16);
      vector[1] = static_cast<float>(at / 16 * 16);
      vector[2] = static_cast<float>(shift);
      attention.SetKey(0, 0, i, vector);
    }
    attention.UpdateSums();
  }

  // Value row i is 1 in channel i: the output is the weights.
  void SetValuesToWeights() {
    for (int i = 0; i < num_keys(); ++i) {
      std::vector<float> value(kDim);
      value[i] = 1;
      attention.SetValue(0, 0, i, value);
    }
    attention.UpdateSums();
  }

  int num_keys() const { return attention.sequences()[0].context_length + 1; }

  // k of 1, so that every row of two keys or more is thresholded.
  SelectAboveThreshold Select(P placement, float theta, D denominator, ValueMean mean) {
    thresholds_ = FlatThresholds({theta}, {0.5f});
    SelectAboveThreshold selection;
    selection.grid = thresholds_.grid();
    selection.targets = targets;
    selection.placement = placement;
    selection.denominator = denominator;
    selection.value_mean = mean;
    selection.promotes = false;
    return selection;
  }

  PagedAttentionCase attention;
  std::vector<std::int32_t> targets = {1};

 private:
  FlatThresholds thresholds_{{0}};
};

struct Outcome {
  std::vector<float> out;
  ThresholdCounts counts;
  int survivors() const { return static_cast<int>(std::lround(counts.ratio_sum)); }
};

class ThresholdOracleTest : public testing::TestWithParam<CpuVariant> {
 protected:
  void SetUp() override {
    if (!MachineRuns(GetParam())) GTEST_SKIP() << "this machine lacks the instruction set";
    backend_ = MakeCpuBackend(GetParam());
  }

  const AttentionKernel& Kernel(AttentionMechanism mechanism, AttentionPhase phase) const {
    return *backend_->kernels().Find({mechanism, phase, DType::kF32, kDim});
  }

  Outcome Run(OneRow& row, const KvSelection& selection) {
    std::vector<ThresholdCounts> counts(1);
    const AttentionKernel& kernel =
        Kernel(AttentionMechanism::kAboveThreshold, AttentionPhase::kDecode);
    std::vector<float> out = row.attention.Run(kernel, *backend_, selection, counts).value();
    return {std::move(out), counts[0]};
  }

  static void ExpectNear(const std::vector<float>& a, const std::vector<float>& b, double bound) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], bound) << i;
  }

  // Calls check(placement, denominator, mean) for every combination.
  template <typename Check>
  static void ForEveryForm(const Check& check) {
    for (const P placement : {P::kPre, P::kCentred, P::kPost}) {
      for (const D denominator : {D::kNone, D::kExact, D::kExponential, D::kCalibrated}) {
        for (const ValueMean mean : {ValueMean::kOff, ValueMean::kAll, ValueMean::kDropped}) {
          check(placement, denominator, mean);
        }
      }
    }
  }

  std::unique_ptr<Backend> backend_;
};

// Values are normal, weights sum to 1: 1e-5 is ten roundings of a sum of 100 terms.
constexpr double kClose = 1e-5;

TEST_P(ThresholdOracleTest, Item1MinusInfinityIsDense) {
  OneRow row(100);
  const std::vector<float> dense = Run(row, SelectAll{}).out;
  ForEveryForm([&](P placement, D denominator, ValueMean mean) {
    const Outcome outcome = Run(row, row.Select(placement, -kInfinity, denominator, mean));
    ExpectNear(outcome.out, dense, kClose);
    EXPECT_EQ(outcome.counts.dropped_mass_sum, 0);
    EXPECT_EQ(outcome.survivors(), 100);
  });
}

TEST_P(ThresholdOracleTest, Item2RowsNotLongerThanKAreDenseBitByBit) {
  OneRow row(100);
  for (const AttentionPhase phase : {AttentionPhase::kPrefill, AttentionPhase::kDecode}) {
    const std::vector<float> dense =
        row.attention.Run(Kernel(AttentionMechanism::kAll, phase), *backend_).value();
    const AttentionKernel& kernel = Kernel(AttentionMechanism::kAboveThreshold, phase);
    for (const int target : {100, 101, 5000, 0}) {
      row.targets = {target};
      const SelectAboveThreshold selection =
          row.Select(P::kCentred, 5, D::kExact, ValueMean::kDropped);
      std::vector<ThresholdCounts> counts(1);
      EXPECT_EQ(row.attention.Run(kernel, *backend_, selection, counts).value(), dense);
      EXPECT_EQ(counts[0].num_heads, 0);
      EXPECT_EQ(counts[0].value_rows, 100);
    }
  }
}

TEST_P(ThresholdOracleTest, Item2ARowOneLongerThanKDropsOne) {
  OneRow row(100);
  row.targets = {99};
  // Calibrated on the row itself: its 100th largest score.
  const Outcome outcome = Run(row, row.Select(P::kPre, 0, D::kExact, ValueMean::kDropped));
  EXPECT_EQ(outcome.counts.value_rows, 99);
  EXPECT_EQ(outcome.counts.ratio_sum, 1);
}

TEST_P(ThresholdOracleTest, Item3TheNextLargestScoreSelectsExactlyTheTopK) {
  OneRow row(64);
  row.SetValuesToWeights();
  for (const int k : {1, 7, 63}) {
    const float theta = static_cast<float>(63 - k) / 8;
    const Outcome outcome = Run(row, row.Select(P::kPre, theta, D::kNone, ValueMean::kOff));
    EXPECT_EQ(outcome.survivors(), k);
    for (int i = 0; i < 64; ++i) EXPECT_EQ(outcome.out[i] > 0, i * 37 % 64 >= 64 - k) << i;
  }
}

TEST_P(ThresholdOracleTest, Item4AScoreEqualToTheThresholdIsDropped) {
  OneRow row(60, 0, [](int i) { return i % 3; });
  row.SetValuesToWeights();
  const Outcome outcome = Run(row, row.Select(P::kPre, 0.125f, D::kNone, ValueMean::kOff));
  EXPECT_EQ(outcome.survivors(), 20);
  for (int i = 0; i < 60; ++i) EXPECT_EQ(outcome.out[i] > 0, i % 3 == 2);
}

TEST_P(ThresholdOracleTest, Item5ExactDenominatorsGiveDenseWeights) {
  OneRow row(60);
  row.SetValuesToWeights();
  const std::vector<float> dense = Run(row, SelectAll{}).out;
  const Outcome outcome = Run(row, row.Select(P::kPre, 5, D::kExact, ValueMean::kOff));
  double kept = 0;
  for (int i = 0; i < 60; ++i) {
    const bool survives = i * 37 % 60 > 40;
    EXPECT_NEAR(outcome.out[i], survives ? dense[i] : 0, 1e-6);
    kept += outcome.out[i];
  }
  EXPECT_NEAR(kept + outcome.counts.dropped_mass_sum, 1, 1e-6);
}

TEST_P(ThresholdOracleTest, Item6PreWithExactDenominatorsIsPost) {
  OneRow row(100);
  const SelectAboveThreshold exact = row.Select(P::kPre, 9.0625f, D::kExact, ValueMean::kDropped);
  const ThresholdRow reference = ComputeThresholdReference(row.attention, exact).rows[0];
  const Outcome pre = Run(row, exact);
  const double log_sum = reference.scores[0] - std::log(reference.softmax[0]);
  const Outcome post = Run(row, row.Select(P::kPost, static_cast<float>(9.0625 - log_sum),
                                           D::kExact, ValueMean::kDropped));
  EXPECT_EQ(post.survivors(), pre.survivors());
  EXPECT_EQ(pre.survivors(), 27);
  ExpectNear(post.out, pre.out, kClose);
}

TEST_P(ThresholdOracleTest, Item7TheExponentialDenominatorIsAnUpperBound) {
  OneRow row(60);
  row.SetValuesToWeights();
  const auto mass = [&](D denominator, float gamma) {
    SelectAboveThreshold selection = row.Select(P::kPre, 5, denominator, ValueMean::kOff);
    selection.gamma = gamma;
    const std::vector<float> out = Run(row, selection).out;
    return std::accumulate(out.begin(), out.end(), 0.0);
  };
  EXPECT_LT(mass(D::kExponential, 1), mass(D::kExact, 1));
  SelectAboveThreshold none = row.Select(P::kPre, 5, D::kNone, ValueMean::kOff);
  const std::vector<float> expected = Run(row, none).out;
  none.denominator = D::kExponential;
  none.gamma = 0;
  EXPECT_EQ(Run(row, none).out, expected);
}

TEST_P(ThresholdOracleTest, Item7TheExponentialDenominatorIsExactForEqualDroppedScores) {
  OneRow row(60, 0, [](int i) { return i < 50 ? 8 : 8 + i - 49; });
  const std::vector<float> exact =
      Run(row, row.Select(P::kPre, 1, D::kExact, ValueMean::kDropped)).out;
  const Outcome outcome = Run(row, row.Select(P::kPre, 1, D::kExponential, ValueMean::kDropped));
  EXPECT_EQ(outcome.survivors(), 10);
  ExpectNear(outcome.out, exact, kClose);
}

TEST_P(ThresholdOracleTest, Item8ConstantValuesStayConstant) {
  OneRow row(100);
  const std::vector<float> c = NormalValues(kDim, 1, 9);
  for (int i = 0; i < 100; ++i) row.attention.SetValue(0, 0, i, c);
  row.attention.UpdateSums();
  for (const float theta : {-1.0f, 3.0f, 9.0f, 12.25f, 100.0f}) {
    for (const ValueMean mean : {ValueMean::kAll, ValueMean::kDropped}) {
      ExpectNear(Run(row, row.Select(P::kPre, theta, D::kExact, mean)).out, c, kClose);
    }
    if (theta > 12.5f) continue;  // without survivors the argmax is kept, see item 11
    const Outcome off = Run(row, row.Select(P::kPre, theta, D::kExact, ValueMean::kOff));
    for (int d = 0; d < kDim; ++d) {
      EXPECT_NEAR(off.out[d], c[d] * (1 - off.counts.dropped_mass_sum), kClose);
    }
  }
}

// Channel d of the dense output less the compensated one, and the covariance over dropped keys.
TEST_P(ThresholdOracleTest, Item9TheErrorOfTheDroppedMeanIsACovarianceWithinItsBound) {
  OneRow row(100);
  const SelectAboveThreshold selection = row.Select(P::kPre, 10, D::kExact, ValueMean::kDropped);
  const ThresholdRow reference = ComputeThresholdReference(row.attention, selection).rows[0];
  const std::vector<float> dense = Run(row, SelectAll{}).out, out = Run(row, selection).out;
  for (int d = 0; d < kDim; ++d) {
    double count = 0, p_sum = 0, v_sum = 0, v_squared = 0, product = 0, largest_p = 0;
    for (int i = 0; i < 100; ++i) {
      if (reference.survives[i]) continue;
      const double v = row.attention.Value(0, 0, i)[d], p = reference.softmax[i];
      ++count;
      p_sum += p;
      v_sum += v;
      v_squared += v * v;
      product += p * v;
      largest_p = std::max(largest_p, p);
    }
    const double error = dense[d] - out[d];
    EXPECT_NEAR(error, product - p_sum * v_sum / count, kClose);
    const double deviation = std::sqrt(v_squared / count - std::pow(v_sum / count, 2));
    EXPECT_LE(std::fabs(error),
              std::sqrt(p_sum * (count * largest_p - p_sum)) * deviation + kClose);
  }
}

TEST_P(ThresholdOracleTest, Item9TheDroppedMeanIsExactForEqualDroppedScoresOrValues) {
  OneRow equal_scores(100, 0, [](int i) { return i % 5 == 0 ? 16 + i / 5 : 3; });
  ExpectNear(Run(equal_scores, equal_scores.Select(P::kPre, 1, D::kExact, ValueMean::kDropped)).out,
             Run(equal_scores, SelectAll{}).out, kClose);
  OneRow equal_values(100);
  const std::vector<float> c = NormalValues(kDim, 1, 9);
  for (int i = 0; i < 100; ++i) {
    if (i * 37 % 100 <= 80) equal_values.attention.SetValue(0, 0, i, c);
  }
  equal_values.attention.UpdateSums();
  ExpectNear(
      Run(equal_values, equal_values.Select(P::kPre, 10, D::kExact, ValueMean::kDropped)).out,
      Run(equal_values, SelectAll{}).out, kClose);
}

TEST_P(ThresholdOracleTest, Item10TheTwoMeansDifferByTheKeptShare) {
  OneRow row(100);
  const SelectAboveThreshold dropped = row.Select(P::kPre, 10, D::kExact, ValueMean::kDropped);
  const ThresholdRow reference = ComputeThresholdReference(row.attention, dropped).rows[0];
  const Outcome with_dropped = Run(row, dropped);
  const Outcome with_all = Run(row, row.Select(P::kPre, 10, D::kExact, ValueMean::kAll));
  const double beta = with_dropped.counts.dropped_mass_sum;
  for (int d = 0; d < kDim; ++d) {
    double mean_kept = 0, mean_dropped = 0;
    for (int i = 0; i < 100; ++i) {
      const double v = row.attention.Value(0, 0, i)[d];
      (reference.survives[i] ? mean_kept : mean_dropped) += v;
    }
    mean_kept /= 19;
    mean_dropped /= 81;
    EXPECT_NEAR(with_all.out[d] - with_dropped.out[d], beta * 0.19 * (mean_kept - mean_dropped),
                kClose);
  }
}

TEST_P(ThresholdOracleTest, Item11PlusInfinityLeavesTheMeanOrTheArgmax) {
  OneRow row(100);
  std::vector<float> mean(kDim), largest(kDim);
  for (int i = 0; i < 100; ++i) {
    const std::vector<double> v = row.attention.Value(0, 0, i);
    for (int d = 0; d < kDim; ++d) mean[d] += static_cast<float>(v[d] / 100);
    if (i * 37 % 100 == 99) largest.assign(v.begin(), v.end());
  }
  ForEveryForm([&](P placement, D denominator, ValueMean value_mean) {
    const Outcome outcome = Run(row, row.Select(placement, kInfinity, denominator, value_mean));
    for (const float value : outcome.out) ASSERT_FALSE(std::isnan(value));
    if (value_mean != ValueMean::kOff) {
      ExpectNear(outcome.out, mean, kClose);
      EXPECT_EQ(outcome.survivors(), 0);
      EXPECT_EQ(outcome.counts.value_rows, 0);
      EXPECT_EQ(outcome.counts.dropped_mass_sum, 1);
      return;
    }
    EXPECT_EQ(outcome.survivors(), 1);
    EXPECT_EQ(outcome.counts.value_rows, 1);
    if (denominator == D::kNone) {
      EXPECT_EQ(outcome.out, largest);
    }
  });
}

TEST_P(ThresholdOracleTest, Item16AConstantOnAllScoresMovesPlainThresholdsOnly) {
  OneRow row(100), shifted(100, 40);
  const auto survivors = [&](OneRow& of, P placement, float theta) {
    return Run(of, of.Select(placement, theta, D::kExact, ValueMean::kDropped)).survivors();
  };
  // A mean of 6.1875; ln Σ exp(s) of 14.5; thresholds between two scores.
  EXPECT_EQ(survivors(row, P::kCentred, 4), survivors(shifted, P::kCentred, 4));
  EXPECT_EQ(survivors(row, P::kCentred, 4), 18);
  EXPECT_EQ(survivors(row, P::kPost, -4), survivors(shifted, P::kPost, -4));
  EXPECT_EQ(survivors(row, P::kPre, 10.0625f) + 40, survivors(shifted, P::kPre, 10.0625f));
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, ThresholdOracleTest, testing::ValuesIn(kCpuVariants),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace thresher
