// Attention to the best keys or pages of each row, against choices made in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "tests/support/cpu_backends.h"
#include "tests/support/reference/paged_attention_case.h"
#include "tests/support/reference/threshold_reference.h"

namespace thresher {
namespace {

constexpr double kUnclear = 1e-4;  // a gap between scores that rounding may close

double Dot(std::span<const float> q, const std::vector<double>& k) {
  return std::inner_product(q.begin(), q.end(), k.begin(), 0.0);
}

// Which of `values` are the `count` largest, the first of equals. *gap is that between the least of
// them and the largest of the rest.
std::vector<bool> LargestOf(const std::vector<double>& values, int count, double* gap) {
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return values[a] > values[b]; });
  std::vector<bool> chosen(values.size(), false);
  for (int i = 0; i < count; ++i) chosen[order[i]] = true;
  *gap = values[order[count - 1]] - values[order[count]];
  return chosen;
}

struct ExpectedRow {
  std::vector<bool> keys;
  bool unclear = false;
};

// What the row of `head` at `position` reads.
ExpectedRow Choose(const PagedAttentionCase& attention, int sequence, int position, int head,
                   int target, bool by_pages) {
  const PagedAttentionShape& shape = attention.shape();
  const int group_size = shape.num_heads / shape.num_kv_heads, kv_head = head / group_size;
  const int n = position + 1;
  if (target == 0 || n <= target) return {std::vector<bool>(n, true)};
  const std::int64_t row =
      attention.query_start(sequence) + position - attention.sequences()[sequence].context_length;
  std::vector<std::vector<double>> keys;
  for (int key = 0; key < n; ++key) keys.push_back(attention.Key(sequence, kv_head, key));
  double gap = 0;
  if (!by_pages) {
    std::vector<double> scores;
    for (const std::vector<double>& key : keys) {
      scores.push_back(Dot(attention.Query(row, head), key));
    }
    std::vector<bool> chosen = LargestOf(scores, target, &gap);
    return {chosen, gap < kUnclear};
  }
  std::vector<double> bounds((n + kRankedPage - 1) / kRankedPage, -INFINITY);
  for (int other = kv_head * group_size; other < (kv_head + 1) * group_size; ++other) {
    const std::span<const float> q = attention.Query(row, other);
    for (std::size_t page = 0; page < bounds.size(); ++page) {
      double bound = 0;
      for (int d = 0; d < shape.head_dim; ++d) {
        double most = -INFINITY;
        for (int key = static_cast<int>(page) * kRankedPage;
             key < std::min<int>(n, (static_cast<int>(page) + 1) * kRankedPage); ++key) {
          most = std::max(most, q[d] * keys[key][d]);
        }
        bound += most;
      }
      bounds[page] = std::max(bounds[page], bound);
    }
  }
  const std::vector<bool> pages = LargestOf(bounds, target / kRankedPage, &gap);
  ExpectedRow expected{std::vector<bool>(n), gap < kUnclear};
  for (int key = 0; key < n; ++key) expected.keys[key] = pages[key / kRankedPage];
  return expected;
}

class RankedAttentionTest : public testing::TestWithParam<CpuVariant> {
 protected:
  void SetUp() override {
    if (!MachineRuns(GetParam())) GTEST_SKIP() << "this machine lacks the instruction set";
    backend_ = MakeCpuBackend(GetParam(), 2);
  }

  const AttentionKernel& Kernel(AttentionPhase phase, DType kv_dtype,
                                AttentionMechanism mechanism = AttentionMechanism::kRanked) const {
    return *backend_->kernels().Find({mechanism, phase, kv_dtype, 64});
  }

  // Every sparse row against the double reference over the keys that it should read.
  void ExpectReadsTheBest(const PagedAttentionShape& shape, AttentionPhase phase,
                          const SelectRanked& selection) {
    PagedAttentionCase attention(shape, {{0, 70, 1}, {150, 3, 2}, {30, 5, 3}});
    const int num_heads = shape.num_heads;
    std::vector<ThresholdCounts> counts(attention.num_tokens() * shape.num_kv_heads);
    std::vector<std::int32_t> survivors(attention.num_tokens() * num_heads, -1);
    const auto out =
        attention.Run(Kernel(phase, shape.kv_dtype), *backend_, selection, counts, survivors);
    ASSERT_TRUE(out.ok()) << out.status();
    std::vector<ExpectedRow> rows(attention.num_tokens() * num_heads);
    const auto row_of = [&](int s, int position, int head) {
      return (attention.query_start(s) + position - attention.sequences()[s].context_length) *
                 num_heads +
             head;
    };
    for (int s = 0; s < 3; ++s) {
      const PagedSequence& sequence = attention.sequences()[s];
      for (int j = 0; j < sequence.query_length; ++j) {
        for (int head = 0; head < num_heads; ++head) {
          const int position = sequence.context_length + j;
          rows[row_of(s, position, head)] =
              Choose(attention, s, position, head, selection.targets[s], selection.by_pages);
        }
      }
    }
    const auto reference = attention.ComputeReference(
        DType::kF32, 1, [&](int s, int head, int position, int key) -> bool {
          return rows[row_of(s, position, head)].keys[key];
        });
    const int group_size = num_heads / shape.num_kv_heads;
    int num_clear = 0, num_sparse = 0;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const auto n = static_cast<std::int64_t>(rows[row].keys.size());
      const auto num_kept = std::count(rows[row].keys.begin(), rows[row].keys.end(), true);
      if (num_kept == n) {  // dense rows are compared bit by bit elsewhere
        EXPECT_EQ(survivors[row], -1);
        continue;
      }
      ++num_sparse;
      if (!selection.by_pages) {
        EXPECT_EQ(survivors[row], num_kept) << row;
      }
      if (rows[row].unclear) continue;
      ++num_clear;
      EXPECT_EQ(survivors[row], num_kept) << row;
      for (int d = 0; d < shape.head_dim; ++d) {
        const std::size_t at = row * static_cast<std::size_t>(shape.head_dim) + d;
        ASSERT_TRUE(std::fabs((*out)[at] - reference.out[at]) <= reference.bound[at])
            << "row " << row << " element " << d << " is " << (*out)[at] << ", not "
            << reference.out[at];
      }
      if (row % group_size != 0) continue;
      // The union over the group, if none of its heads is unclear.
      std::vector<bool> any = rows[row].keys;
      bool unclear = false;
      for (int i = 0; i < group_size; ++i) {
        unclear = unclear || rows[row + i].unclear;
        for (std::int64_t key = 0; key < n; ++key) {
          any[key] = any[key] || rows[row + i].keys[key];
        }
      }
      const ThresholdCounts& count = counts[row / group_size];
      EXPECT_EQ(count.num_heads, group_size);
      if (!unclear) {
        EXPECT_EQ(count.value_rows, std::count(any.begin(), any.end(), true)) << row;
      }
      EXPECT_EQ(count.key_rows, selection.by_pages ? count.value_rows + 2 * ((n + 15) / 16) : n);
    }
    EXPECT_GT(num_sparse, 100);
    EXPECT_GT(num_clear, num_sparse * 9 / 10);
  }

  std::unique_ptr<Backend> backend_;
};

TEST_P(RankedAttentionTest, ReadsTheKLargestScoresOfEachHead) {
  const std::vector<std::int32_t> targets = {20, 40, 0};
  for (const DType kv_dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const AttentionPhase phase : {AttentionPhase::kPrefill, AttentionPhase::kDecode}) {
      ExpectReadsTheBest(
          {.num_heads = 6, .num_kv_heads = 2, .block_size = 16, .kv_dtype = kv_dtype}, phase,
          {.targets = targets});
    }
  }
}

TEST_P(RankedAttentionTest, ReadsThePagesOfTheLargestBounds) {
  const std::vector<std::int32_t> targets = {16, 100, 0};
  ExpectReadsTheBest({.num_heads = 6, .num_kv_heads = 2, .block_size = 64},
                     AttentionPhase::kPrefill, {.targets = targets, .by_pages = true});
  // A group of more heads than are scored at once.
  ExpectReadsTheBest({.num_heads = 20, .num_kv_heads = 1, .block_size = 8, .kv_dtype = DType::kF32},
                     AttentionPhase::kDecode, {.targets = targets, .by_pages = true});
}

TEST_P(RankedAttentionTest, OfEqualScoresTheFirstAreRead) {
  PagedAttentionCase attention({.kv_dtype = DType::kF32}, {{99, 1, 4}});
  // All keys are the same, so that their scores are.
  const std::vector<double> key = attention.Key(0, 0, 17);
  const std::vector<float> same(key.begin(), key.end());
  for (int position = 0; position < 100; ++position) attention.SetKey(0, 0, position, same);
  const std::vector<std::int32_t> targets = {37};
  for (const bool by_pages : {false, true}) {
    const int num_read = by_pages ? 32 : 37;
    const auto out = attention
                         .Run(Kernel(AttentionPhase::kDecode, DType::kF32), *backend_,
                              SelectRanked{.targets = targets, .by_pages = by_pages})
                         .value();
    for (int d = 0; d < 64; ++d) {
      double mean = 0;
      for (int position = 0; position < num_read; ++position) {
        mean += attention.Value(0, 0, position)[d] / num_read;
      }
      EXPECT_NEAR(out[d], mean, 1e-5) << d;
    }
  }
}

// Item 3 of the oracle: the threshold is the next largest score, so the selections are the same.
TEST_P(RankedAttentionTest, CompensatesAsThresholdsWithExactDenominatorsDo) {
  PagedAttentionCase attention({.num_heads = 3, .num_kv_heads = 1}, {{199, 1, 6}});
  attention.UpdateSums();
  const std::vector<std::int32_t> targets = {25};
  const std::vector<std::uint8_t> compensates = {1};
  std::vector<float> thresholds;
  for (int head = 0; head < 3; ++head) {
    std::vector<double> scores;
    for (int key = 0; key < 200; ++key) {
      scores.push_back(Dot(attention.Query(0, head), attention.Key(0, 0, key)) * attention.scale());
    }
    std::sort(scores.begin(), scores.end(), std::greater<>());
    ASSERT_GT(scores[24] - scores[25], kUnclear);
    thresholds.push_back(static_cast<float>((scores[24] + scores[25]) / 2));
  }
  const FlatThresholds flat(thresholds);
  const SelectAboveThreshold above{.grid = flat.grid(),
                                   .targets = targets,
                                   .placement = ThresholdPlacement::kPre,
                                   .denominator = DroppedDenominator::kExact,
                                   .value_mean = ValueMean::kDropped,
                                   .promotes = false};
  const ThresholdReference reference = ComputeThresholdReference(attention, above);
  const auto out = attention
                       .Run(Kernel(AttentionPhase::kDecode, DType::kBF16), *backend_,
                            SelectRanked{.targets = targets, .compensates = compensates})
                       .value();
  for (int head = 0; head < 3; ++head) {
    const ThresholdRow& row = reference.rows[head];
    for (int d = 0; d < 64; ++d) {
      EXPECT_TRUE(std::fabs(out[head * 64 + d] - row.output[d]) <= row.bound) << head << "/" << d;
    }
  }
}

TEST_P(RankedAttentionTest, RowsWithinKAreDenseAndOthersKeepTheirBitsInEveryBatch) {
  const PagedAttentionShape shape{.num_heads = 6, .num_kv_heads = 2, .block_size = 16};
  const std::vector<std::int32_t> targets = {50}, more_targets = {16, 50};
  const std::vector<std::uint8_t> compensates = {1}, more_compensates = {0, 1};
  for (const bool by_pages : {false, true}) {
    const SelectRanked selection{
        .targets = targets, .by_pages = by_pages, .compensates = compensates};
    const AttentionKernel& kernel = Kernel(AttentionPhase::kPrefill, DType::kBF16);
    const auto whole = PagedAttentionCase(shape, {{0, 120, 5}}).Run(kernel, *backend_, selection);
    ASSERT_TRUE(whole.ok()) << whole.status();
    const auto dense =
        PagedAttentionCase(shape, {{0, 120, 5}})
            .Run(Kernel(AttentionPhase::kPrefill, DType::kBF16, AttentionMechanism::kAll),
                 *backend_)
            .value();
    const std::int64_t width = 6 * 64;
    EXPECT_TRUE(std::equal(dense.begin(), dense.begin() + 50 * width, whole->begin()));
    EXPECT_FALSE(std::equal(dense.begin() + 50 * width, dense.begin() + 51 * width,
                            whole->begin() + 50 * width));
    SelectRanked crowded = selection;
    crowded.targets = more_targets;
    crowded.compensates = more_compensates;
    PagedAttentionCase crowd(shape, {{40, 9, 1}, {77, 43, 5}});
    const auto chunk = crowd.Run(kernel, *backend_, crowded).value();
    EXPECT_TRUE(std::equal(whole->begin() + 77 * width, whole->end(), chunk.begin() + 9 * width));
    PagedAttentionCase last(shape, {{119, 1, 5}});
    const auto decoded =
        last.Run(Kernel(AttentionPhase::kDecode, DType::kBF16), *backend_, selection).value();
    EXPECT_TRUE(std::equal(decoded.begin(), decoded.end(), whole->begin() + 119 * width));
  }
}

TEST_P(RankedAttentionTest, ANaNStaysInItsRow) {
  PagedAttentionCase attention({.kv_dtype = DType::kF32}, {{79, 2, 4}});
  std::vector<float> key(64, 1);
  key[3] = std::numeric_limits<float>::quiet_NaN();
  attention.SetKey(0, 0, 80, key);  // the second query alone sees it
  const std::vector<std::int32_t> targets = {32};
  for (const bool by_pages : {false, true}) {
    const auto out = attention
                         .Run(Kernel(AttentionPhase::kPrefill, DType::kF32), *backend_,
                              SelectRanked{.targets = targets, .by_pages = by_pages})
                         .value();
    EXPECT_TRUE(
        std::all_of(out.begin(), out.begin() + 64, [](float x) { return std::isfinite(x); }));
    EXPECT_TRUE(std::all_of(out.begin() + 64, out.end(), [](float x) { return std::isnan(x); }));
  }
}

TEST_P(RankedAttentionTest, SelectionsThatDoNotFitAreNamed) {
  PagedAttentionCase attention({}, {{20, 1, 4}});
  const auto message = [&](const KvSelection& selection) {
    return std::string(
        attention.Run(Kernel(AttentionPhase::kDecode, DType::kBF16), *backend_, selection)
            .status()
            .message());
  };
  const std::vector<std::int32_t> none, negative = {-1}, small = {15};
  EXPECT_EQ(message(SelectRanked{.targets = none}), "attention: targets.size is 0, expected 1");
  EXPECT_EQ(message(SelectRanked{.targets = negative}),
            "attention: targets is -1, expected 1 to 2147483647");
  EXPECT_EQ(message(SelectRanked{.targets = small, .by_pages = true}),
            "attention: targets is 15, expected 16 to 2147483647");
  EXPECT_EQ(message(SelectBlocks{}),
            "attention: the kernel of mechanism `ranked` carries out SelectRanked and SelectAll "
            "alone");
}

INSTANTIATE_TEST_SUITE_P(Cpu, RankedAttentionTest, testing::ValuesIn(kCpuVariants),
                         [](const auto& variant) { return NameOf(variant.param); });

}  // namespace
}  // namespace thresher
