// The oracle of top_theta.md §14, items 12, 14, 17 and 21: what must not change a thresholded row,
// what a group of heads shares, and what is counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/attention_threshold.h"
#include "tests/support/cpu_backends.h"
#include "tests/support/reference/threshold_reference.h"

namespace thresher {
namespace {

using P = ThresholdPlacement;
constexpr P kPlacements[] = {P::kPre, P::kCentred, P::kPost};

// A batch, its selection, and what a kernel makes of it.
class Batch final {
 public:
  Batch(const PagedAttentionShape& shape, const std::vector<PagedSequence>& sequences, P placement,
        std::vector<std::int32_t> targets)
      : attention(shape, sequences), targets_(std::move(targets)), flat_(Thetas(shape, placement)) {
    selection.grid = flat_.grid();
    selection.targets = targets_;
    selection.placement = placement;
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void Run(Backend& backend, AttentionPhase phase = AttentionPhase::kDecode) {
    const PagedAttentionShape& shape = attention.shape();
    counts.resize(attention.num_tokens() * shape.num_kv_heads);
    const AttentionKernel* kernel = backend.kernels().Find(
        {AttentionMechanism::kAboveThreshold, phase, shape.kv_dtype, shape.head_dim});
    survivors.assign(attention.num_tokens() * shape.num_heads, -1);
    out = attention.Run(*kernel, backend, selection, counts, survivors).value();
  }

  // Of tokens [first, end) of the batch.
  std::vector<float> Rows(std::int64_t first, std::int64_t end) const {
    const std::int64_t row = std::int64_t{attention.shape().num_heads} * attention.shape().head_dim;
    return {out.begin() + first * row, out.begin() + end * row};
  }

  PagedAttentionCase attention;
  SelectAboveThreshold selection;
  std::vector<float> out;
  std::vector<ThresholdCounts> counts;
  std::vector<std::int32_t> survivors;  // [num_tokens, num_heads], −1 where not thresholded

 private:
  static std::vector<float> Thetas(const PagedAttentionShape& shape, P placement) {
    std::vector<float> thetas;
    for (int head = 0; head < shape.num_heads; ++head) {
      thetas.push_back((placement == P::kPost ? -5.5f : 1.0f) +
                       0.3f * static_cast<float>(head % 3));
    }
    return thetas;
  }

  std::vector<std::int32_t> targets_;
  FlatThresholds flat_;
};

void ExpectSameCounts(const ThresholdCounts& a, const ThresholdCounts& b) {
  EXPECT_EQ(a.key_rows, b.key_rows);
  EXPECT_EQ(a.value_rows, b.value_rows);
  EXPECT_EQ(a.num_heads, b.num_heads);
  EXPECT_EQ(a.ratio_sum, b.ratio_sum);
  EXPECT_EQ(a.dropped_mass_sum, b.dropped_mass_sum);
  EXPECT_EQ(a.ratio_buckets, b.ratio_buckets);
  EXPECT_EQ(a.dropped_mass_buckets, b.dropped_mass_buckets);
}

constexpr PagedAttentionShape kShape = {
    .num_heads = 6, .num_kv_heads = 2, .head_dim = 64, .block_size = 16};

class ThresholdBatchTest : public testing::TestWithParam<CpuVariant> {
 protected:
  void SetUp() override {
    if (!MachineRuns(GetParam())) GTEST_SKIP() << "this machine lacks the instruction set";
    backend_ = MakeCpuBackend(GetParam());
  }
  std::unique_ptr<Backend> backend_;
};

TEST_P(ThresholdBatchTest, Item12AnyNumberOfSplitsGivesTheReference) {
  // 1, 2, 7 and 32 ranges of keys, the last block ragged.
  for (const int length : {101, 301, 1201, 6201}) {
    for (const P placement : kPlacements) {
      Batch batch({.num_heads = 4, .num_kv_heads = 4, .head_dim = 64, .kv_dtype = DType::kF32},
                  {{length - 1, 1, 3}}, placement, {32});
      batch.Run(*backend_);
      const ThresholdReference reference =
          ComputeThresholdReference(batch.attention, batch.selection);
      EXPECT_LT(reference.ambiguous_share(), 1) << length;
      for (int i = 0; i < 4 * 64; ++i) {
        const ThresholdRow& row = reference.rows[i / 64];
        ASSERT_TRUE(std::fabs(batch.out[i] - row.output[i % 64]) <= row.bound) << length;
      }
    }
  }
}

TEST_P(ThresholdBatchTest, Item12ThreadsDoNotChangeABit) {
  const std::vector<PagedSequence> sequences = {{600, 2, 1}, {0, 50, 2}, {900, 1, 3}, {300, 1, 4}};
  for (const P placement : kPlacements) {
    for (const AttentionPhase phase : {AttentionPhase::kPrefill, AttentionPhase::kDecode}) {
      Batch one(kShape, sequences, placement, {16, 16, 64, 16});
      one.Run(*backend_, phase);
      for (const int num_threads : {2, 7}) {
        Batch many(kShape, sequences, placement, {16, 16, 64, 16});
        many.Run(*MakeCpuBackend(GetParam(), num_threads), phase);
        EXPECT_EQ(many.out, one.out);
        for (std::size_t i = 0; i < one.counts.size(); ++i) {
          ExpectSameCounts(many.counts[i], one.counts[i]);
        }
      }
    }
  }
}

// Scores that wait for their sums take turns where they do not fit: here one row at a time.
TEST_P(ThresholdBatchTest, Item12WavesDoNotChangeABit) {
  const std::vector<PagedSequence> sequences = {{600, 1, 1}, {50, 2, 2}, {900, 1, 3}, {300, 1, 4}};
  Batch whole(kShape, sequences, P::kPost, {16, 16, 64, 16});
  whole.Run(*backend_);
  ThreadTeam team(2);
  for (const std::int64_t wave_bytes : {1, 20000}) {
    for (const auto& kernel :
         MakeAttentionThresholdKernels(GetParam().isa, false, team, wave_bytes)) {
      if (!(kernel->key() == AttentionKey{AttentionMechanism::kAboveThreshold,
                                          AttentionPhase::kDecode, DType::kBF16, 0})) {
        continue;
      }
      EXPECT_EQ(whole.attention.Run(*kernel, *backend_, whole.selection).value(), whole.out);
    }
  }
}

// Blocks lie in shuffled order, another for each block size.
TEST_P(ThresholdBatchTest, Item12TheOrderOfBlocksIsIrrelevant) {
  std::vector<float> expected;
  for (const int block_size : {16, 64, 128}) {
    PagedAttentionShape shape = kShape;
    shape.block_size = block_size;
    Batch batch(shape, {{700, 1, 1}, {90, 1, 2}}, P::kPre, {16, 16});
    batch.selection.value_mean = ValueMean::kOff;  // sums of other blocks round otherwise
    batch.Run(*backend_);
    if (expected.empty()) expected = batch.out;
    EXPECT_EQ(batch.out, expected);
  }
}

TEST_P(ThresholdBatchTest, Item12ValuesThatNoHeadKeepsAreNotRead) {
  for (const bool promotes : {false, true}) {
    for (const P placement : kPlacements) {
      Batch batch(kShape, {{400, 1, 1}, {90, 1, 2}}, placement, {16, 16});
      batch.selection.promotes = promotes;
      batch.Run(*backend_);
      const std::vector<float> expected = batch.out;
      ThresholdReference reference = ComputeThresholdReference(batch.attention, batch.selection);
      const std::vector<float> poison(64, std::numeric_limits<float>::quiet_NaN());
      int num_spoilt = 0;
      for (int sequence = 0; sequence < 2; ++sequence) {
        for (int kv_head = 0; kv_head < 2; ++kv_head) {
          const ThresholdRow* rows = &reference.rows[sequence * 6 + kv_head * 3];
          if (rows[0].ambiguous) continue;
          for (std::size_t key = 0; key < rows[0].scores.size(); ++key) {
            if (rows[0].survives[key] || rows[1].survives[key] || rows[2].survives[key]) continue;
            batch.attention.SetValue(sequence, kv_head, static_cast<int>(key), poison);
            ++num_spoilt;
          }
        }
      }
      EXPECT_GT(num_spoilt, 100);
      batch.Run(*backend_);
      EXPECT_EQ(batch.out, expected);
    }
  }
}

TEST_P(ThresholdBatchTest, Item14AHeadOfAStrictGroupIsTheHeadAlone) {
  for (const P placement : kPlacements) {
    const PagedAttentionShape shape = {.num_heads = 3, .num_kv_heads = 1, .head_dim = 64};
    Batch group(shape, {{350, 1, 7}}, placement, {16});
    group.selection.promotes = false;
    group.Run(*backend_);
    for (int head = 0; head < 3; ++head) {
      PagedAttentionShape one = shape;
      one.num_heads = 1;
      Batch alone(one, {{350, 1, 7}}, placement, {16});
      alone.selection.promotes = head == 1;  // a group of one promotes nothing
      const auto query = group.attention.Query(0, head);
      std::copy(query.begin(), query.end(), alone.attention.Query(0, 0).begin());
      const FlatThresholds theta({group.selection.grid.theta[head]});
      alone.selection.grid = theta.grid();
      alone.Run(*backend_);
      EXPECT_EQ(alone.out, std::vector<float>(group.out.begin() + head * 64,
                                              group.out.begin() + (head + 1) * 64));
    }
  }
}

TEST_P(ThresholdBatchTest, Item14TheUnionIsNoSmallerThanAHeadAndPromotionLosesNoMass) {
  Batch strict(kShape, {{350, 1, 7}, {200, 3, 8}}, P::kCentred, {16, 16});
  Batch promoted(kShape, {{350, 1, 7}, {200, 3, 8}}, P::kCentred, {16, 16});
  strict.selection.promotes = false;
  strict.Run(*backend_);
  promoted.Run(*backend_);
  const ThresholdReference reference =
      ComputeThresholdReference(strict.attention, strict.selection);
  for (std::size_t i = 0; i < strict.counts.size(); ++i) {
    std::int64_t most = 0, sum = 0;
    for (int head = 0; head < 3; ++head) {
      const ThresholdRow& row = reference.rows[i / 2 * 6 + i % 2 * 3 + head];
      most = std::max<std::int64_t>(most, row.num_survivors());
      sum += row.num_survivors();
    }
    EXPECT_GE(strict.counts[i].value_rows, most);
    EXPECT_LE(strict.counts[i].value_rows, sum);
    EXPECT_EQ(strict.counts[i].value_rows, promoted.counts[i].value_rows);
    EXPECT_EQ(strict.counts[i].ratio_sum, promoted.counts[i].ratio_sum);
    EXPECT_LT(promoted.counts[i].dropped_mass_sum, strict.counts[i].dropped_mass_sum);
  }
}

TEST_P(ThresholdBatchTest, Item17CountsEqualARecount) {
  for (const P placement : kPlacements) {
    Batch batch(kShape, {{350, 1, 7}, {20, 12, 8}, {0, 30, 9}}, placement, {16, 25, 0});
    batch.Run(*backend_);
    const ThresholdReference reference =
        ComputeThresholdReference(batch.attention, batch.selection);
    for (std::size_t i = 0; i < batch.counts.size(); ++i) {
      const ThresholdCounts& counts = batch.counts[i];
      const ThresholdRow* rows = &reference.rows[i / 2 * 6 + i % 2 * 3];
      const auto n = static_cast<std::int64_t>(rows[0].scores.size());
      EXPECT_EQ(counts.key_rows, n);
      if (rows[0].ambiguous) continue;
      EXPECT_EQ(counts.value_rows, reference.value_rows[i]);
      const int target = i / 2 == 0 ? 16 : i / 2 <= 12 ? 25 : 0;
      const bool sparse = target != 0 && n > target;
      EXPECT_EQ(counts.num_heads, sparse ? 3 : 0);
      ThresholdCounts expected;
      const std::int32_t* survivors = &batch.survivors[i / 2 * 6 + i % 2 * 3];
      for (int head = 0; head < 3; ++head) {
        EXPECT_EQ(survivors[head], sparse ? rows[head].num_survivors() : -1);
      }
      for (int head = 0; sparse && head < 3; ++head) {
        const double ratio = static_cast<double>(rows[head].num_survivors()) / target;
        expected.ratio_sum += static_cast<float>(ratio);
        expected.dropped_mass_sum += static_cast<float>(rows[head].dropped_mass);
        std::size_t bucket = 0;
        while (bucket < kTargetRatioBounds.size() &&
               static_cast<float>(ratio) > kTargetRatioBounds[bucket]) {
          ++bucket;
        }
        ++expected.ratio_buckets[bucket];
        bucket = 0;
        while (bucket < kDroppedMassBounds.size() &&
               rows[head].dropped_mass > kDroppedMassBounds[bucket]) {
          ++bucket;
        }
        ++expected.dropped_mass_buckets[bucket];
      }
      EXPECT_NEAR(counts.ratio_sum, expected.ratio_sum, 1e-5);
      EXPECT_NEAR(counts.dropped_mass_sum, expected.dropped_mass_sum, 1e-5);
      EXPECT_EQ(counts.ratio_buckets, expected.ratio_buckets);
      EXPECT_EQ(counts.dropped_mass_buckets, expected.dropped_mass_buckets);
    }
  }
}

TEST_P(ThresholdBatchTest, Item21RequestsOfAMixedBatchEqualEachAlone) {
  const std::vector<PagedSequence> sequences = {
      {420, 1, 1}, {100, 7, 2}, {600, 1, 3}, {17, 20, 4}, {600, 1, 5}};
  const std::vector<std::int32_t> targets = {0, 16, 64, 25, 1000};
  for (const P placement : kPlacements) {
    for (const AttentionPhase phase : {AttentionPhase::kPrefill, AttentionPhase::kDecode}) {
      Batch crowd(kShape, sequences, placement, targets);
      crowd.Run(*backend_, phase);
      for (std::size_t s = 0; s < sequences.size(); ++s) {
        Batch alone(kShape, {sequences[s]}, placement, {targets[s]});
        alone.Run(*backend_, phase);
        const std::int64_t first = crowd.attention.query_start(static_cast<int>(s));
        EXPECT_EQ(crowd.Rows(first, first + sequences[s].query_length), alone.out);
        for (std::size_t i = 0; i < alone.counts.size(); ++i) {
          ExpectSameCounts(crowd.counts[first * 2 + static_cast<std::int64_t>(i)], alone.counts[i]);
        }
      }
    }
  }
}

TEST_P(ThresholdBatchTest, ManyQueriesAtOnceEqualStepByStep) {
  for (const DType kv_dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    PagedAttentionShape shape = kShape;
    shape.kv_dtype = kv_dtype;
    for (const P placement : kPlacements) {
      Batch together(shape, {{170, 60, 5}}, placement, {180});
      together.Run(*backend_);
      for (int query = 0; query < 60; query += query < 30 ? 4 : 7) {
        Batch alone(shape, {{170 + query, 1, 5}}, placement, {180});
        alone.Run(*backend_);
        EXPECT_EQ(together.Rows(query, query + 1), alone.out) << query;
        for (int head = 0; head < 2; ++head) {
          ExpectSameCounts(together.counts[query * 2 + head], alone.counts[head]);
        }
      }
    }
  }
}

// Rows up to k are those of dense prefill, rows beyond it those of decode, wherever a chunk is cut.
TEST_P(ThresholdBatchTest, RowsOfAPrefillChunkAreDenseUpToK) {
  const AttentionKernel& dense_kernel = *backend_->kernels().Find(
      {AttentionMechanism::kAll, AttentionPhase::kPrefill, DType::kBF16, 64});
  for (const auto& [context, queries] : {std::pair{0, 100}, {30, 40}, {50, 20}}) {
    const int num_dense = std::clamp(64 - context, 0, queries);
    Batch chunk(kShape, {{context, queries, 5}}, P::kCentred, {64});
    chunk.Run(*backend_, AttentionPhase::kPrefill);
    Batch decode(kShape, {{context, queries, 5}}, P::kCentred, {64});
    decode.Run(*backend_, AttentionPhase::kDecode);
    const std::vector<float> dense = chunk.attention.Run(dense_kernel, *backend_).value();
    EXPECT_EQ(chunk.Rows(0, num_dense),
              std::vector<float>(dense.begin(), dense.begin() + num_dense * 6 * 64));
    EXPECT_EQ(chunk.Rows(num_dense, queries), decode.Rows(num_dense, queries));
    for (std::size_t i = 0; i < chunk.counts.size(); ++i) {
      ExpectSameCounts(chunk.counts[i], decode.counts[i]);
    }
  }
}

// The same at the other end: beyond the longest row that the thresholds speak for.
TEST_P(ThresholdBatchTest, RowsPastTheLongestAreDense) {
  for (const P placement : kPlacements) {
    for (const auto& [context, queries] : {std::pair{0, 300}, {150, 100}, {199, 1}, {200, 40}}) {
      const int first = std::clamp(190 - context, 0, queries);
      const int end = std::clamp(200 - context, 0, queries);
      for (const AttentionPhase phase : {AttentionPhase::kPrefill, AttentionPhase::kDecode}) {
        Batch batch(kShape, {{context, queries, 5}}, placement, {190});
        Batch unlimited(kShape, {{context, queries, 5}}, placement, {190});
        batch.selection.longest_row = 200;
        batch.Run(*backend_, phase);
        unlimited.Run(*backend_, phase);
        const AttentionKernel& dense_kernel = *backend_->kernels().Find(
            {AttentionMechanism::kAll, phase, DType::kBF16, kShape.head_dim});
        const std::vector<float> dense = batch.attention.Run(dense_kernel, *backend_).value();
        const auto dense_rows = [&](int from, int to) {
          return std::vector<float>(dense.begin() + from * 6 * 64, dense.begin() + to * 6 * 64);
        };
        EXPECT_EQ(batch.Rows(0, first), dense_rows(0, first));
        EXPECT_EQ(batch.Rows(first, end), unlimited.Rows(first, end));
        EXPECT_EQ(batch.Rows(end, queries), dense_rows(end, queries));
        for (int row = 0; row < queries; ++row) {
          const bool same = unlimited.Rows(row, row + 1) == dense_rows(row, row + 1);
          EXPECT_EQ(same, row < first) << row;
          for (int kv_head = 0; kv_head < 2; ++kv_head) {
            const ThresholdCounts& counts = batch.counts[row * 2 + kv_head];
            const bool sparse = row >= first && row < end;
            EXPECT_EQ(counts.key_rows, context + row + 1);
            EXPECT_EQ(counts.num_heads, sparse ? 3 : 0);
            EXPECT_EQ(counts.value_rows < context + row + 1, sparse);
          }
        }
      }
    }
  }
}

// A row with a NaN among its scores must not pass for a sound one, whatever its form.
TEST_P(ThresholdBatchTest, ANanStaysANan) {
  for (const P placement : kPlacements) {
    for (const auto denominator : {DroppedDenominator::kNone, DroppedDenominator::kExact}) {
      for (const ValueMean mean : {ValueMean::kOff, ValueMean::kDropped}) {
        Batch batch(kShape, {{300, 1, 1}}, placement, {16});
        batch.selection.denominator = denominator;
        batch.selection.value_mean = mean;
        const std::vector<float> nan(64, std::numeric_limits<float>::quiet_NaN());
        batch.attention.SetKey(0, 0, 250, nan);
        batch.Run(*backend_);
        for (int i = 0; i < 3 * 64; ++i) ASSERT_TRUE(std::isnan(batch.out[i]));
        for (int i = 3 * 64; i < 6 * 64; ++i) ASSERT_FALSE(std::isnan(batch.out[i]));
        EXPECT_TRUE(std::isfinite(batch.counts[0].dropped_mass_sum));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, ThresholdBatchTest, testing::ValuesIn(kCpuVariants),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace thresher
