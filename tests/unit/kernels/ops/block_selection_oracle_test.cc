// Items of the method's list of tests that concern lists, each named after its item, through the
// selector and, where an item speaks of outputs, attention over its lists.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "tests/support/block_selection_fixture.h"
#include "tests/support/reference/block_selection_reference.h"
#include "tests/support/reference/paged_attention_case.h"

namespace thresher {
namespace {

using BlockListOracleTest = BlockSelectionFixture;

constexpr ValueTerm kChunkInvariantTerms[] = {ValueTerm::kOff, ValueTerm::kRaw,
                                              ValueTerm::kCalibrated, ValueTerm::kCentred};

// Small whole numbers: sums of keys are exact in bf16, scores in f32.
void FillWithWholeNumbers(PagedAttentionCase& attention) {
  std::mt19937_64 random(11);
  const auto draw = [&] { return static_cast<float>(random() % 5) - 2; };
  std::vector<float> row(attention.shape().head_dim);
  for (int position = 0; position < LengthOf(attention); ++position) {
    for (int head = 0; head < attention.shape().num_kv_heads; ++head) {
      std::generate(row.begin(), row.end(), draw);
      attention.SetKey(0, head, position, row);
    }
    const int query = position - attention.sequences()[0].context_length;
    if (query < 0) continue;
    for (int head = 0; head < attention.shape().num_heads; ++head) {
      for (float& q : attention.Query(query, head)) q = draw();
    }
  }
}

TEST_P(BlockListOracleTest, Oracle1AllBlocks) {
  for (const int block_size : {16, 256}) {
    PagedAttentionCase attention(
        {.num_heads = 4, .num_kv_heads = 1, .head_dim = 64, .block_size = block_size},
        {{0, 1100, 1}, {300, 333, 2}});
    const auto selected = Select(attention, RunWith(ValueTerm::kOff, 1000));
    ForEachQueryBlock(attention, [&](int, int, std::int64_t row) {
      for (int head = 0; head < 4; ++head) EXPECT_TRUE(selected->ReadsAll(row, head));
    });
    EXPECT_EQ(Attend(attention, AttentionMechanism::kBlocks, selected->selection.lists),
              Attend(attention, AttentionMechanism::kAll, SelectAll{}));
  }
}

TEST_P(BlockListOracleTest, Oracle2Factorisation) {
  for (const int stride : {8, 16}) {
    for (const int head_dim : {64, 128}) {
      PagedAttentionCase attention({.num_heads = 2, .num_kv_heads = 1, .head_dim = head_dim},
                                   {{512, 200, 1}});
      FillWithWholeNumbers(attention);
      BlockSelectionRun run = RunWith(ValueTerm::kOff, 2);
      run.rules.stride = stride;
      const auto selected = Select(attention, run);
      ForEachQueryBlock(attention, [&](int, int own, std::int64_t row) {
        const ReferenceScores reference =
            ReferenceBlockScores(attention, 0, 1, own, run.rules, 0, {});
        for (int block = 0; block < own; ++block) {
          EXPECT_NEAR(selected->Scores(row, 1, own)[block], reference.score[block],
                      1e-5 * std::fabs(reference.score[block]) + 1e-9);
        }
      });
    }
  }
}

TEST_P(BlockListOracleTest, Oracle3NoDecayAndNoBetaIsUniformTopK) {
  PagedAttentionCase attention({.num_heads = 3, .num_kv_heads = 1, .head_dim = 64},
                               {{640, 384, 1}});
  FillWithWholeNumbers(attention);
  const OwnedValueStatistics statistics = CalibrateValues(attention, 16);
  for (const int budget : {2, 3, 5}) {
    BlockSelectionRun run = RunWith(ValueTerm::kCalibrated, budget);
    run.statistics = statistics.View();
    run.beta = 0;
    const auto selected = Select(attention, run);
    ForEachQueryBlock(attention, [&](int, int own, std::int64_t row) {
      const ReferenceScores reference =
          ReferenceBlockScores(attention, 0, 2, own, run.rules, 0, run.statistics);
      const std::vector<float> scores(reference.score.begin(), reference.score.end());
      EXPECT_EQ(selected->List(row, 2, own), ReferenceChoice(scores, budget, run.rules));
    });
  }
}

TEST_P(BlockListOracleTest, Oracle5ForcedAndOracle6Count) {
  PagedAttentionCase attention({.num_heads = 3, .num_kv_heads = 1, .head_dim = 64}, {{0, 2500, 1}});
  for (const int budget : {1, 8, 9, 12}) {
    for (const bool in_budget : {false, true}) {
      BlockSelectionRun run = RunWith(ValueTerm::kOff, budget, 4, 4);
      run.rules.forced_in_budget = in_budget;
      const auto selected = Select(attention, run);
      ForEachQueryBlock(attention, [&](int, int own, std::int64_t row) {
        for (int head = 0; head < 3; ++head) {
          const std::set<int> list = selected->List(row, head, own);
          for (int block = 0; block <= std::min(3, own); ++block) {
            EXPECT_TRUE(list.contains(block));
            EXPECT_TRUE(list.contains(own - block));
          }
          EXPECT_EQ(*list.rbegin(), own);
          const int count = static_cast<int>(list.size());
          const int n_sel = std::min(own + 1, budget);
          EXPECT_GE(count, n_sel);
          EXPECT_LE(count, std::min(own + 1, n_sel + 8));
          if (in_budget && budget >= 8) {
            EXPECT_EQ(count, n_sel);
          }
          if (selected->ReadsAll(row, head)) continue;
          // As they lie in memory: ascending, each once.
          const SelectBlocks& lists = selected->selection.lists;
          const std::uint16_t* blocks =
              lists.blocks + selected->IndexOf(row, head) * lists.capacity;
          const int length = lists.list_length[selected->IndexOf(row, head)];
          EXPECT_EQ(length, count);
          EXPECT_TRUE(std::is_sorted(blocks, blocks + length));
        }
      });
    }
  }
}

TEST_P(BlockListOracleTest, Oracle7DenseRows) {
  PagedAttentionCase attention({.num_heads = 2, .num_kv_heads = 1, .head_dim = 64}, {{0, 1400, 1}});
  const auto selected = Select(attention, RunWith(ValueTerm::kOff, 5));
  const std::vector<float> sparse =
      Attend(attention, AttentionMechanism::kBlocks, selected->selection.lists);
  const std::vector<float> dense = Attend(attention, AttentionMechanism::kAll, SelectAll{});
  const std::ptrdiff_t end = 5 * kSelectionBlock * 2 * 64;
  EXPECT_TRUE(std::equal(dense.begin(), dense.begin() + end, sparse.begin()));
  EXPECT_FALSE(std::equal(dense.begin() + end, dense.end(), sparse.begin() + end));
}

TEST_P(BlockListOracleTest, Oracle8Causality) {
  const PagedAttentionShape shape = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 64};
  constexpr int kPerturbed = 9;
  PagedAttentionCase before(shape, {{0, 1500, 1}});
  PagedAttentionCase after(shape, {{0, 1500, 1}});
  const OwnedValueStatistics statistics = CalibrateValues(before, 16);
  for (int position = kPerturbed * kSelectionBlock; position < (kPerturbed + 1) * kSelectionBlock;
       ++position) {
    std::vector<float> k = Narrowed(after.Key(0, 0, position));
    for (float& x : k) x = 2 - x;
    after.SetKey(0, 0, position, k);
    for (float& q : after.Query(position, 1)) q = 1 - q;
  }
  ScaleValues(after, kPerturbed * kSelectionBlock, (kPerturbed + 1) * kSelectionBlock, 64);
  const auto expect_same = [&](const BlockSelectionRun& run, bool same) {
    const auto a = Select(before, run), b = Select(after, run);
    const auto end = kPerturbed * 2;
    const auto lists_a = ListsOf(before, *a), lists_b = ListsOf(after, *b);
    EXPECT_EQ(std::equal(lists_a.begin(), lists_a.begin() + end, lists_b.begin()), same);
    if (!same) return;
    const std::vector<float> out_a =
        Attend(before, AttentionMechanism::kBlocks, a->selection.lists);
    const std::vector<float> out_b = Attend(after, AttentionMechanism::kBlocks, b->selection.lists);
    EXPECT_TRUE(std::equal(out_a.begin(),
                           out_a.begin() + std::ptrdiff_t{kPerturbed} * kSelectionBlock * 2 * 64,
                           out_b.begin()));
    EXPECT_NE(out_a, out_b);
  };
  for (const ValueTerm term : kChunkInvariantTerms) {
    BlockSelectionRun run = RunWith(term, 2);
    run.statistics = statistics.View();
    expect_same(run, true);
  }
  // Its statistics see the perturbed block.
  BlockSelectionRun run = RunWith(ValueTerm::kZScore, 2);
  run.beta = 1;
  expect_same(run, false);
}

TEST_P(BlockListOracleTest, Oracle9ChunkInvariance) {
  const PagedAttentionShape shape = {
      .num_heads = 3, .num_kv_heads = 1, .head_dim = 64, .block_size = 64};
  constexpr int kLength = 1500;
  PagedAttentionCase whole(shape, {{0, kLength, 5}});
  const OwnedValueStatistics statistics = CalibrateValues(whole, 16);
  std::vector<BlockSelectionRun> runs;
  for (const ValueTerm term : kChunkInvariantTerms) {
    runs.push_back(RunWith(term, 3));
    runs.back().statistics = statistics.View();
  }
  runs.push_back(RunWith(ValueTerm::kOff, 3));
  runs.back().rules.score = BlockScore::kAntidiagonalSoftmax;
  runs.back().rules.covered_mass = 0.8f;
  for (const BlockSelectionRun& run : runs) {
    const auto selected = Select(whole, run);
    const auto lists = ListsOf(whole, *selected);
    const std::vector<float> out =
        Attend(whole, AttentionMechanism::kBlocks, selected->selection.lists);
    for (const int chunk : {128, 384, 1024}) {
      std::vector<std::set<int>> chunk_lists;
      std::vector<float> chunk_out;
      for (int begin = 0; begin < kLength; begin += chunk) {
        PagedAttentionCase part(shape, {{begin, std::min(chunk, kLength - begin), 5}});
        const auto of_part = Select(part, run);
        for (const auto& list : ListsOf(part, *of_part)) chunk_lists.push_back(list);
        const std::vector<float> rows =
            Attend(part, AttentionMechanism::kBlocks, of_part->selection.lists);
        chunk_out.insert(chunk_out.end(), rows.begin(), rows.end());
      }
      EXPECT_EQ(chunk_lists, lists) << chunk;
      EXPECT_EQ(chunk_out, out) << chunk;
    }
  }
}

TEST_P(BlockListOracleTest, Oracle11Padding) {
  const PagedAttentionShape shape = {
      .num_heads = 2, .num_kv_heads = 1, .head_dim = 64, .block_size = 256};
  PagedAttentionCase attention(shape, {{700, 141, 1}});
  const OwnedValueStatistics statistics = CalibrateValues(attention, 16);
  for (const ValueTerm term : {ValueTerm::kCalibrated, ValueTerm::kZScore}) {
    BlockSelectionRun run = RunWith(term, 2);
    run.statistics = statistics.View();
    const auto with_nan = Select(attention, run);
    const std::vector<float> out =
        Attend(attention, AttentionMechanism::kBlocks, with_nan->selection.lists);
    EXPECT_TRUE(std::none_of(out.begin(), out.end(), [](float x) { return std::isnan(x); }));
    PagedAttentionCase other(shape, {{700, 141, 1}});
    for (int position = 841; position < 1024; ++position) {
      other.SetKey(0, 0, position, std::vector<float>(64, 1e30f));
      other.SetValue(0, 0, position, std::vector<float>(64, -1e30f));
    }
    const auto with_garbage = Select(other, run);
    EXPECT_EQ(ListsOf(other, *with_garbage), ListsOf(attention, *with_nan));
    EXPECT_EQ(Attend(other, AttentionMechanism::kBlocks, with_garbage->selection.lists), out);
  }
  // The first block of queries holds 68 of its 128: the mean is over their pairs alone.
  const BlockSelectionRun run = RunWith(ValueTerm::kOff, 2);
  const ReferenceScores reference = ReferenceBlockScores(attention, 0, 0, 5, run.rules, 0, {});
  const auto selected = Select(attention, run);
  for (int block = 0; block < 5; ++block) {
    EXPECT_NEAR(selected->Scores(0, 0, 5)[block], reference.score[block], reference.bound[block]);
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, BlockListOracleTest, testing::ValuesIn(kCpuVariants),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace thresher
