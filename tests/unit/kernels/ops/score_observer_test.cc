// The observer against a double reference, for every instruction set that the machine has.
#include "kernels/ops/score_observer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "tests/support/cpu_backends.h"
#include "tests/support/reference/observer_case.h"

namespace thresher {
namespace {

class ScoreObserverTest : public testing::TestWithParam<CpuVariant> {
 protected:
  void SetUp() override {
    if (!MachineRuns(GetParam())) GTEST_SKIP() << "this machine lacks the instruction set";
    backend_ = MakeCpuBackend(GetParam(), 2);
  }
  std::unique_ptr<Backend> backend_;
};

// What a histogram should say: every score of one placement with its weight.
struct Reference {
  std::vector<std::pair<double, double>> scores;  // score, exp(s − m)
};

void AddReference(const std::vector<double>& scores, std::array<Reference, 3>& references) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0, total = 0;
  for (const double s : scores) {
    sum += std::exp(s - largest);
    total += s;
  }
  const double mean = total / static_cast<double>(scores.size());
  const double log_sum = largest + std::log(sum);
  for (const double s : scores) {
    const double weight = std::exp(s - largest);
    references[0].scores.emplace_back(s, weight);
    references[1].scores.emplace_back(s - mean, weight);
    references[2].scores.emplace_back(s - log_sum, weight);
  }
}

// The count and weight below each bin's edge must lie between those of the reference below the edge
// less and plus the error of an f32 score: 27 roundings of 2^-24 of sums up to about 64.
void ExpectMatches(const ScoreHistogram& histogram, int placement, Reference reference) {
  constexpr double kSlack = 1e-4;
  auto& scores = reference.scores;
  std::sort(scores.begin(), scores.end());
  std::vector<double> weights = {0};  // of the scores before each
  for (const auto& score : scores) weights.push_back(weights.back() + score.second);
  const auto below = [&](double edge) {
    const auto first = std::lower_bound(scores.begin(), scores.end(), std::pair{edge, -1.0});
    const auto index = static_cast<std::size_t>(first - scores.begin());
    return std::pair{static_cast<double>(index), weights[index]};
  };
  double count = 0, weight = 0;
  for (int bin = 0; bin < ScoreBins::kNumBins; ++bin) {
    const double edge = ScoreBins::kLowest + double{ScoreBins::kWidth} * bin;
    if (bin > 0 && (bin % 8 == 0 || histogram.count[placement][bin] > 0)) {
      const auto low = below(edge - kSlack), high = below(edge + kSlack);
      ASSERT_GE(count, low.first) << "placement " << placement << ", bin " << bin;
      ASSERT_LE(count, high.first) << "placement " << placement << ", bin " << bin;
      if (placement < 2 && bin % ScoreBins::kBinsPerWeight == 0) {
        ASSERT_GE(weight, low.second * (1 - 1e-4) - 1e-9) << "bin " << bin;
        ASSERT_LE(weight, high.second * (1 + 1e-4) + 1e-9) << "bin " << bin;
      }
    }
    count += histogram.count[placement][bin];
    if (placement < 2 && bin % ScoreBins::kBinsPerWeight == 0) {
      weight += histogram.weight[placement][bin / ScoreBins::kBinsPerWeight];
    }
  }
  EXPECT_EQ(count, static_cast<double>(reference.scores.size()));
}

TEST_P(ScoreObserverTest, CountsScoresAsTheReferenceDoes) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    ObserverShape shape;
    shape.kv_dtype = dtype;
    shape.context_length = {0, 70, 200};
    shape.query_length = {9, 1, 40};
    ObserverCase observer_case(shape, *backend_);
    // Two buckets, that of the second row shared by two sequences; 17 rows of one bucket.
    std::vector<std::int32_t> rows = {0, 3, 9}, buckets = {0, 1, 1};
    for (std::int32_t row = 12; row < 46; row += 2) {
      rows.push_back(row);
      buckets.push_back(row < 46 - 2 ? 1 : 0);
    }
    const auto num_heads = static_cast<std::size_t>(shape.num_heads);
    std::vector<ScoreHistogram> histograms(2 * num_heads);
    std::uint64_t outside = 0;
    // Twice, since histograms are added to.
    for (int round = 0; round < 2; ++round) {
      const absl::Status status = observer_case.Observe(
          *backend_,
          {.rows = rows, .buckets = buckets, .histograms = histograms, .outside = &outside});
      ASSERT_TRUE(status.ok()) << status;
    }
    EXPECT_EQ(outside, 0u);
    std::vector<std::array<Reference, 3>> references(histograms.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const int sequence = rows[i] < 9 ? 0 : rows[i] < 10 ? 1 : 2;
      const int query = rows[i] - std::array{0, 9, 10}[static_cast<std::size_t>(sequence)];
      for (std::size_t head = 0; head < num_heads; ++head) {
        const std::vector<double> scores =
            observer_case.Scores(sequence, query, static_cast<int>(head));
        auto& reference = references[static_cast<std::size_t>(buckets[i]) * num_heads + head];
        AddReference(scores, reference);
        AddReference(scores, reference);
      }
    }
    for (std::size_t i = 0; i < histograms.size(); ++i) {
      for (int placement = 0; placement < 3; ++placement) {
        ExpectMatches(histograms[i], placement, references[i][static_cast<std::size_t>(placement)]);
      }
    }
  }
}

TEST_P(ScoreObserverTest, CountsWhatIsOutsideInTheEndBins) {
  ObserverShape shape;
  shape.context_length = {60};
  shape.query_length = {1};
  shape.spread = 60;
  ObserverCase observer_case(shape, *backend_);
  const std::vector<std::int32_t> row = {0};
  std::vector<ScoreHistogram> histograms(static_cast<std::size_t>(shape.num_heads));
  std::uint64_t outside = 0, expected = 0;
  ASSERT_TRUE(
      observer_case
          .Observe(*backend_,
                   {.rows = row, .buckets = row, .histograms = histograms, .outside = &outside})
          .ok());
  for (int head = 0; head < shape.num_heads; ++head) {
    std::array<Reference, 3> references;
    AddReference(observer_case.Scores(0, 0, head), references);
    for (int placement = 0; placement < 3; ++placement) {
      const auto& all = references[static_cast<std::size_t>(placement)].scores;
      const auto low = static_cast<std::uint64_t>(std::count_if(
          all.begin(), all.end(), [](const auto& score) { return score.first < -64; }));
      const auto high = static_cast<std::uint64_t>(std::count_if(
          all.begin(), all.end(), [](const auto& score) { return score.first >= 64; }));
      expected += low + high;
      const auto& counts = histograms[static_cast<std::size_t>(head)].count[placement];
      EXPECT_GE(counts[0], low);
      EXPECT_GE(counts[ScoreBins::kNumBins - 1], high);
      EXPECT_EQ(std::accumulate(std::begin(counts), std::end(counts), 0u), 61u);
    }
  }
  EXPECT_GT(expected, 0u);
  EXPECT_EQ(outside, expected);
}

TEST_P(ScoreObserverTest, GivesTheSameBitsForAnyNumberOfThreads) {
  ObserverShape shape;
  shape.context_length = {300, 0};
  shape.query_length = {64, 64};
  std::vector<std::int32_t> rows(128), buckets(128);
  std::iota(rows.begin(), rows.end(), 0);
  for (std::size_t i = 0; i < rows.size(); ++i) buckets[i] = static_cast<std::int32_t>(i % 5);
  std::vector<std::vector<ScoreHistogram>> results;
  for (const int threads : {1, 2, 3}) {
    const auto backend = MakeCpuBackend(GetParam(), threads);
    ObserverCase observer_case(shape, *backend);
    results.emplace_back(5 * static_cast<std::size_t>(shape.num_heads));
    ASSERT_TRUE(
        observer_case
            .Observe(*backend, {.rows = rows, .buckets = buckets, .histograms = results.back()})
            .ok());
  }
  for (const auto& result : results) {
    EXPECT_EQ(std::memcmp(result.data(), results[0].data(), result.size() * sizeof(result[0])), 0);
  }
}

TEST_P(ScoreObserverTest, SumsValuesOfWholeGroupsWhateverTheChunks) {
  const int length = 75;  // four whole groups
  ObserverShape shape;
  shape.context_length = {0};
  shape.query_length = {length};
  const auto heads = static_cast<std::size_t>(shape.num_kv_heads);
  const auto dim = static_cast<std::size_t>(shape.head_dim);
  std::vector<float> mean_value(heads * dim);
  for (std::size_t i = 0; i < mean_value.size(); ++i) mean_value[i] = 0.01f * static_cast<float>(i);
  ObserverCase whole(shape, *backend_);
  for (const int chunk : {75, 20, 1}) {
    std::vector<ValueSums> sums(heads);
    std::vector<double> value_sums(heads * dim);
    for (int first = 0; first < length; first += chunk) {
      AttentionPlan plan = whole.plan();
      const std::vector<std::int32_t> context = {first};
      const std::vector<std::int32_t> start = {0, std::min(chunk, length - first)};
      plan.batch.context_length = context;
      plan.batch.query_start = start;
      const absl::Status status = backend_->score_observer().ObserveValues(
          plan, whole.layer(), mean_value, sums, value_sums, whole.stream());
      ASSERT_TRUE(status.ok()) << status;
    }
    for (std::size_t head = 0; head < heads; ++head) {
      ValueSums expected;
      std::vector<double> total(dim);
      for (int first = 0; first < length; first += 16) {
        double largest = -1e9, centred = -1e9;
        for (int position = first; position < std::min(first + 16, length); ++position) {
          const std::vector<double> value = whole.Value(0, static_cast<int>(head), position);
          double norm = 0, centred_norm = 0;
          for (std::size_t d = 0; d < dim; ++d) {
            total[d] += value[d];
            norm += value[d] * value[d];
            centred_norm += std::pow(value[d] - mean_value[head * dim + d], 2);
          }
          largest = std::max(largest, std::log(std::sqrt(norm) + 1e-6));
          centred = std::max(centred, std::log(std::sqrt(centred_norm) + 1e-6));
        }
        if (first + 16 > length) continue;
        ++expected.num_groups;
        expected.log_norm += largest;
        expected.log_norm_squared += largest * largest;
        expected.centred_log_norm += centred;
        expected.centred_log_norm_squared += centred * centred;
      }
      EXPECT_EQ(sums[head].num_tokens, length);
      EXPECT_EQ(sums[head].num_groups, 4);
      EXPECT_NEAR(sums[head].log_norm, expected.log_norm, 1e-9);
      EXPECT_NEAR(sums[head].log_norm_squared, expected.log_norm_squared, 1e-9);
      EXPECT_NEAR(sums[head].centred_log_norm, expected.centred_log_norm, 1e-9);
      EXPECT_NEAR(sums[head].centred_log_norm_squared, expected.centred_log_norm_squared, 1e-9);
      for (std::size_t d = 0; d < dim; ++d) {
        EXPECT_NEAR(value_sums[head * dim + d], total[d], 1e-9);
      }
    }
  }
}

TEST_P(ScoreObserverTest, RefusesWhatDoesNotFit) {
  ObserverShape shape;
  shape.context_length = {4};
  shape.query_length = {4};
  ObserverCase observer_case(shape, *backend_);
  std::vector<ScoreHistogram> histograms(2 * static_cast<std::size_t>(shape.num_heads));
  const auto code = [&](std::vector<std::int32_t> rows, std::vector<std::int32_t> buckets) {
    return observer_case
        .Observe(*backend_, {.rows = rows, .buckets = buckets, .histograms = histograms})
        .code();
  };
  EXPECT_EQ(code({0, 3}, {0, 1}), absl::StatusCode::kOk);
  EXPECT_EQ(code({0, 4}, {0, 1}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({-1, 3}, {0, 1}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({3, 2}, {0, 1}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({2, 3}, {0, 2}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({2, 3}, {0}), absl::StatusCode::kInvalidArgument);
  std::vector<ValueSums> sums(1);
  std::vector<double> value_sums(48);
  EXPECT_EQ(backend_->score_observer()
                .ObserveValues(observer_case.plan(), observer_case.layer(), {}, sums, value_sums,
                               observer_case.stream())
                .code(),
            absl::StatusCode::kInvalidArgument);
  auto* q = observer_case.layer().q.as<float>();
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    q[0] = bad;
    EXPECT_EQ(code({0}, {0}), absl::StatusCode::kFailedPrecondition);
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, ScoreObserverTest, testing::ValuesIn(kCpuVariants),
                         [](const auto& variant) { return NameOf(variant.param); });

}  // namespace
}  // namespace thresher
