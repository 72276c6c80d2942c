// Items of the method's list of tests that concern scores and values, each named after its item.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/block_selection_fixture.h"
#include "tests/support/reference/block_selection_reference.h"
#include "tests/support/reference/numbers.h"

namespace thresher {
namespace {

using BlockScoreOracleTest = BlockSelectionFixture;

double DeviationOf(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double x : values) squares += (x - mean) * (x - mean);
  return std::sqrt(squares / n);
}

// Values of every block of another size, so that no two terms are near.
void SpreadValues(PagedAttentionCase& attention, double least) {
  const int num_blocks = LengthOf(attention) / kSelectionBlock;
  for (int block = 0; block < num_blocks; ++block) {
    ScaleValues(attention, block * kSelectionBlock, (block + 1) * kSelectionBlock,
                least * (1 + (block * 7 % num_blocks) * 0.4));
  }
}

TEST_P(BlockScoreOracleTest, Oracle12ValueTermOrdersByTheStatisticWhenBetaIsHuge) {
  PagedAttentionCase attention(
      {.num_heads = 2, .num_kv_heads = 1, .head_dim = 64, .kv_dtype = DType::kF32},
      {{1280, 128, 1}});
  SpreadValues(attention, 2);
  OwnedValueStatistics statistics = CalibrateValues(attention, 16);
  // Below every group, so that no term is cut off at 0.
  statistics.mean[0] = statistics.centred_mean[0] = -5;
  for (const ValueTerm term : {ValueTerm::kRaw, ValueTerm::kCalibrated, ValueTerm::kCentred}) {
    BlockSelectionRun run = RunWith(term, 3);
    run.statistics = statistics.View();
    run.beta = 1e6f;
    const auto selected = Select(attention, run);
    const ReferenceScores with =
        ReferenceBlockScores(attention, 0, 0, 10, run.rules, 1, run.statistics);
    run.rules.value_term = ValueTerm::kOff;
    const ReferenceScores without =
        ReferenceBlockScores(attention, 0, 0, 10, run.rules, 1, run.statistics);
    std::vector<float> terms;
    for (int block = 0; block <= 10; ++block) {
      terms.push_back(static_cast<float>(with.score[block] - without.score[block]));
    }
    EXPECT_EQ(selected->List(0, 0, 10), ReferenceChoice(terms, 3, run.rules));
    EXPECT_EQ(selected->List(0, 1, 10), selected->List(0, 0, 10));
  }
}

TEST_P(BlockScoreOracleTest, Oracle12ValueTermHasNoEffectWhenBetaIsZero) {
  PagedAttentionCase attention({.num_heads = 2, .num_kv_heads = 1, .head_dim = 64},
                               {{1024, 300, 1}});
  const OwnedValueStatistics statistics = CalibrateValues(attention, 16);
  const auto expected = ListsOf(attention, *Select(attention, RunWith(ValueTerm::kOff, 3)));
  for (const ValueTerm term :
       {ValueTerm::kRaw, ValueTerm::kCalibrated, ValueTerm::kZScore, ValueTerm::kCentred}) {
    BlockSelectionRun run = RunWith(term, 3);
    run.statistics = statistics.View();
    run.beta = 0;
    EXPECT_EQ(ListsOf(attention, *Select(attention, run)), expected);
  }
}

TEST_P(BlockScoreOracleTest, Oracle12ValueTermIgnoresTheScaleOfValuesUnlessRaw) {
  const PagedAttentionShape shape = {
      .num_heads = 2, .num_kv_heads = 1, .head_dim = 64, .kv_dtype = DType::kF32};
  PagedAttentionCase attention(shape, {{1280, 256, 1}});
  SpreadValues(attention, 0.02);  // norms below 1: the raw term is 0
  PagedAttentionCase scaled(shape, {{1280, 256, 1}});
  SpreadValues(scaled, 0.02 * 64);
  const OwnedValueStatistics statistics = CalibrateValues(attention, 16);
  const OwnedValueStatistics scaled_statistics = CalibrateValues(scaled, 16);
  for (const ValueTerm term :
       {ValueTerm::kRaw, ValueTerm::kCalibrated, ValueTerm::kZScore, ValueTerm::kCentred}) {
    BlockSelectionRun run = RunWith(term, 4);
    run.beta = 1;
    run.statistics = statistics.View();
    const auto lists = ListsOf(attention, *Select(attention, run));
    run.statistics = scaled_statistics.View();
    const auto scaled_lists = ListsOf(scaled, *Select(scaled, run));
    if (term == ValueTerm::kRaw) {
      EXPECT_NE(scaled_lists, lists);
    } else {
      EXPECT_EQ(scaled_lists, lists) << static_cast<int>(term);
    }
  }
}

// A routing term without 1/√d or 1/stride would make the value term 181 times too small.
TEST_P(BlockScoreOracleTest, Oracle13ScaleCheck) {
  PagedAttentionCase attention({.num_heads = 1, .num_kv_heads = 1, .head_dim = 128},
                               {{1920, 128, 1}});
  SpreadValues(attention, 1);
  const OwnedValueStatistics statistics = CalibrateValues(attention, 16);
  BlockSelectionRun run = RunWith(ValueTerm::kCalibrated, 2);
  run.statistics = statistics.View();
  const auto ratio_of = [](const std::vector<double>& with, const std::vector<double>& without) {
    std::vector<double> terms;
    for (std::size_t i = 0; i < with.size(); ++i) terms.push_back(with[i] - without[i]);
    return DeviationOf(terms) / DeviationOf(without);
  };
  const auto own_scores = [&](const BlockSelectionRun& of) {
    const auto selected = Select(attention, of);
    const std::span<const float> scores = selected->Scores(0, 0, 15);
    return std::vector<double>(scores.begin(), scores.end());
  };
  BlockSelectionRun off = run;
  off.rules.value_term = ValueTerm::kOff;
  const double ratio = ratio_of(own_scores(run), own_scores(off));
  const double expected = ratio_of(
      ReferenceBlockScores(attention, 0, 0, 15, run.rules, run.beta, run.statistics).score,
      ReferenceBlockScores(attention, 0, 0, 15, off.rules, run.beta, run.statistics).score);
  RecordProperty("value_to_routing_deviation", std::to_string(ratio));
  EXPECT_NEAR(ratio, expected, 0.02 * expected);
}

TEST_P(BlockScoreOracleTest, Oracle14GroupedHeadsHaveTheirOwnListsUnlessShared) {
  for (const int group_size : {3, 4, 8}) {
    PagedAttentionCase attention({.num_heads = group_size, .num_kv_heads = 1, .head_dim = 64},
                                 {{1920, 128, 1}});
    BlockSelectionRun run = RunWith(ValueTerm::kOff, 4);
    auto selected = Select(attention, run);
    const std::span<const float> first = selected->Scores(0, 0, 15);
    std::vector<float> mean(first.begin(), first.end());
    for (int head = 1; head < group_size; ++head) {
      EXPECT_NE(selected->List(0, head, 15), selected->List(0, 0, 15));
      for (int j = 0; j < 16; ++j) mean[j] += selected->Scores(0, head, 15)[j];
    }
    for (float& x : mean) x /= static_cast<float>(group_size);
    const std::set<int> expected = ReferenceChoice(mean, 4, run.rules);
    run.rules.shares_group = true;
    selected = Select(attention, run);
    for (int head = 0; head < group_size; ++head) {
      EXPECT_EQ(selected->List(0, head, 15), expected);
    }
  }
}

TEST_P(BlockScoreOracleTest, Oracle14GroupedHeadsOnTwoRanksHaveTheSameLists) {
  PagedAttentionCase whole({.num_heads = 6, .num_kv_heads = 2, .head_dim = 64}, {{1280, 256, 1}});
  const BlockSelectionRun run = RunWith(ValueTerm::kRaw, 4);
  const auto expected = Select(whole, run);
  for (int rank = 0; rank < 2; ++rank) {
    PagedAttentionCase part({.num_heads = 3, .num_kv_heads = 1, .head_dim = 64}, {{1280, 256, 1}});
    for (int position = 0; position < 1536; ++position) {
      part.SetKey(0, 0, position, Narrowed(whole.Key(0, rank, position)));
      part.SetValue(0, 0, position, Narrowed(whole.Value(0, rank, position)));
      for (int head = 0; position >= 1280 && head < 3; ++head) {
        const std::span<float> from = whole.Query(position - 1280, rank * 3 + head);
        std::copy(from.begin(), from.end(), part.Query(position - 1280, head).begin());
      }
    }
    const auto selected = Select(part, run);
    ForEachQueryBlock(part, [&](int, int own, std::int64_t row) {
      for (int head = 0; head < 3; ++head) {
        EXPECT_EQ(selected->List(row, head, own), expected->List(row, rank * 3 + head, own));
      }
    });
  }
}

TEST_P(BlockScoreOracleTest, Oracle15Determinism) {
  const PagedAttentionShape shape = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 64};
  PagedAttentionCase alone(shape, {{1100, 300, 42}});
  const OwnedValueStatistics statistics = CalibrateValues(alone, 16);
  BlockSelectionRun run = RunWith(ValueTerm::kCalibrated, 4);
  run.statistics = statistics.View();
  const auto expected = Select(alone, run);
  const auto lists = ListsOf(alone, *expected);
  const std::vector<float> out =
      Attend(alone, AttentionMechanism::kBlocks, expected->selection.lists);
  PagedAttentionCase crowd(shape, {{1000, 129, 1}, {1100, 300, 42}, {0, 40, 3}});
  for (const int num_threads : {1, 3}) {
    backend_ = MakeCpuBackend(GetParam(), num_threads);
    for (int i = 0; i < 5; ++i) {
      const auto again = Select(alone, run);
      EXPECT_EQ(ListsOf(alone, *again), lists);
      EXPECT_EQ(Attend(alone, AttentionMechanism::kBlocks, again->selection.lists), out);
    }
    const auto in_crowd = Select(crowd, run);
    auto of_crowd = ListsOf(crowd, *in_crowd);
    of_crowd.erase(of_crowd.begin(), of_crowd.begin() + in_crowd->query_block_start[1] * 4);
    of_crowd.resize(lists.size());
    EXPECT_EQ(of_crowd, lists);
    const std::vector<float> all =
        Attend(crowd, AttentionMechanism::kBlocks, in_crowd->selection.lists);
    EXPECT_TRUE(std::equal(out.begin(), out.end(), all.begin() + crowd.query_start(1) * 4 * 64));
  }
}

// O − O without block j = p_j / (1 − p_j) · (mean value of j − O): what kExactMass and one dense
// pass give is the whole ranking by removal.
TEST_P(BlockScoreOracleTest, Oracle16LeaveOneBlockOutIdentity) {
  PagedAttentionCase attention(
      {.num_heads = 2, .num_kv_heads = 1, .head_dim = 64, .kv_dtype = DType::kF32}, {{1000, 1, 1}});
  BlockSelectionRun run = RunWith(ValueTerm::kOff, 2);
  run.rules.score = BlockScore::kExactMass;
  const auto selected = Select(attention, run);
  const auto reading = [&](const auto& reads) {
    return attention
        .ComputeReference(DType::kF32, 1,
                          [&](int, int, int, int key) { return reads(key / kSelectionBlock); })
        .out;
  };
  const std::vector<double> all = reading([](int) { return true; });
  const ReferenceScores mass = ReferenceBlockScores(attention, 0, 1, 7, run.rules, 0, {});
  for (int j = 0; j < 8; ++j) {
    const std::vector<double> without = reading([&](int block) { return block != j; });
    const std::vector<double> alone = reading([&](int block) { return block == j; });
    const double p = mass.score[j];
    EXPECT_NEAR(selected->Scores(0, 1, 7)[j], p, mass.bound[j]);
    for (int d = 64; d < 128; ++d) {
      EXPECT_NEAR(all[d] - without[d], p / (1 - p) * (alone[d] - all[d]), 1e-6);
    }
  }
}

TEST_P(BlockScoreOracleTest, Oracle17PlantedNeedle) {
  constexpr int kNeedle = 5, kDecoy = 8, kOwn = 14;
  PagedAttentionCase attention({.num_heads = 1, .num_kv_heads = 1, .head_dim = 64},
                               {{kOwn * kSelectionBlock, 128, 1}});
  const std::vector<float> direction = NormalValues(64, 1, 99);
  for (int i = 0; i < kSelectionBlock; ++i) {
    const std::span<float> q = attention.Query(i, 0);
    for (int d = 0; d < 64; ++d) q[d] += direction[d];
    attention.SetKey(0, 0, kNeedle * kSelectionBlock + i, direction);
  }
  ScaleValues(attention, kDecoy * kSelectionBlock, (kDecoy + 1) * kSelectionBlock, 40);
  const OwnedValueStatistics statistics = CalibrateValues(attention, 16);
  for (int budget = 1; budget < kOwn; ++budget) {
    BlockSelectionRun run = RunWith(ValueTerm::kCalibrated, budget);
    run.statistics = statistics.View();
    run.rules.sink_blocks = 0;
    const auto selected = Select(attention, run);
    EXPECT_TRUE(selected->List(0, 0, kOwn).contains(kNeedle)) << budget;
    // The decoy's value term is the largest; the needle's lead is larger still.
    BlockSelectionRun off = run;
    off.rules.value_term = ValueTerm::kOff;
    const auto routing = Select(attention, off);
    const auto routing_of = [&](int block) { return routing->Scores(0, 0, kOwn)[block]; };
    const float term = selected->Scores(0, 0, kOwn)[kDecoy] - routing_of(kDecoy);
    EXPECT_GT(term, 0.3f);
    EXPECT_GT(routing_of(kNeedle) - routing_of(kDecoy), term);
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, BlockScoreOracleTest, testing::ValuesIn(kCpuVariants),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace thresher
