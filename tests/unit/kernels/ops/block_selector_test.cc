// The block selector's scores against the double reference and its lists against whole sorts of
// them, for every instruction set that the machine has. "Oracle n" is item n of the method's list
// of tests; more of them stand in block_selection_oracle_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/block_selection_run.h"
#include "tests/support/cpu_backends.h"
#include "tests/support/reference/block_selection_reference.h"
#include "tests/support/reference/paged_attention_case.h"

namespace thresher {
namespace {

class BlockSelectorTest : public testing::TestWithParam<CpuVariant> {
 protected:
  void SetUp() override {
    if (!MachineRuns(GetParam())) GTEST_SKIP() << "this machine lacks the instruction set";
    backend_ = MakeCpuBackend(GetParam(), 2);
  }

  std::unique_ptr<SelectedBlocks> Select(PagedAttentionCase& attention,
                                         const BlockSelectionRun& run) {
    auto selected = RunBlockSelector(attention, *backend_, run);
    EXPECT_TRUE(selected.ok()) << selected.status();
    return *std::move(selected);
  }

  // Every list is the reference's choice from the row's own scores; those of every `stride`-th row
  // agree with the reference.
  void ExpectConforms(PagedAttentionCase& attention, const BlockSelectionRun& run, int stride) {
    const std::unique_ptr<SelectedBlocks> selected = Select(attention, run);
    ASSERT_NE(selected, nullptr);
    const int forced = run.rules.sink_blocks + run.rules.local_blocks;
    int num_scored = 0;
    ForEachQueryBlock(attention, [&](int sequence, int own, std::int64_t row) {
      const int budget = run.budget(sequence, own);
      const int least = run.rules.covered_mass > 0 ? forced : std::max(budget, forced);
      for (int head = 0; head < attention.shape().num_heads; ++head) {
        ASSERT_EQ(selected->ReadsAll(row, head), budget == kAllBlocks || own + 1 <= least);
        if (selected->ReadsAll(row, head)) continue;
        const std::span<const float> scores = selected->Scores(row, head, own);
        EXPECT_EQ(selected->List(row, head, own), ReferenceChoice(scores, budget, run.rules))
            << "row " << row << ", head " << head;
        if (num_scored++ % stride != 0 || run.rules.shares_group) continue;
        const ReferenceScores reference = ReferenceBlockScores(attention, sequence, head, own,
                                                               run.rules, run.beta, run.statistics);
        for (int block = 0; block <= own; ++block) {
          if (std::isinf(reference.score[block])) {
            EXPECT_EQ(scores[block], reference.score[block]);
            continue;
          }
          // Not "greater": a NaN must fail.
          ASSERT_TRUE(std::fabs(scores[block] - reference.score[block]) <= reference.bound[block])
              << "block " << block << " of row " << row << ", head " << head << ": "
              << scores[block] << ", reference " << reference.score[block] << ", bound "
              << reference.bound[block];
        }
      }
    });
    EXPECT_GT(num_scored, 0);
  }

  std::unique_ptr<Backend> backend_;
};

BlockSelectionRun RunWith(BlockScore score, ValueTerm value_term, int stride, int budget) {
  BlockSelectionRun run;
  run.budget = [budget](int, int) { return budget; };
  run.rules.score = score;
  run.rules.value_term = value_term;
  run.rules.stride = stride;
  run.rules.sink_blocks = 1;
  run.rules.local_blocks = 2;
  return run;
}

TEST_P(BlockSelectorTest, AntidiagonalScoresForEveryGroupAndBlockSize) {
  struct Shape {
    int heads, kv_heads, head_dim, block_size, stride;
    DType kv_dtype;
  };
  for (const Shape& s : {Shape{2, 2, 64, 16, 16, DType::kBF16},
                         {3, 1, 128, 32, 8, DType::kF16},
                         {8, 2, 64, 64, 16, DType::kF32},
                         {8, 1, 128, 128, 16, DType::kBF16},
                         {2, 1, 64, 256, 8, DType::kBF16},
                         {1, 1, 8, 8, 8, DType::kF32},
                         {5, 1, 72, 16, 16, DType::kBF16}}) {
    PagedAttentionCase attention({.num_heads = s.heads,
                                  .num_kv_heads = s.kv_heads,
                                  .head_dim = s.head_dim,
                                  .block_size = s.block_size,
                                  .kv_dtype = s.kv_dtype},
                                 {{900, 150, 1}, {0, 5, 2}, {640, 128, 3}});
    ExpectConforms(attention, RunWith(BlockScore::kAntidiagonal, ValueTerm::kOff, s.stride, 3), 7);
  }
}

TEST_P(BlockSelectorTest, EveryValueTerm) {
  for (const auto& [stride, kv_dtype] : {std::pair{8, DType::kBF16}, {16, DType::kF32}}) {
    PagedAttentionCase attention(
        {.num_heads = 4, .num_kv_heads = 2, .head_dim = 64, .block_size = 32, .kv_dtype = kv_dtype},
        {{768, 250, 1}});
    const OwnedValueStatistics statistics = CalibrateValues(attention, stride);
    for (const ValueTerm term :
         {ValueTerm::kRaw, ValueTerm::kCalibrated, ValueTerm::kZScore, ValueTerm::kCentred}) {
      BlockSelectionRun run = RunWith(BlockScore::kAntidiagonal, term, stride, 2);
      run.statistics = statistics.View();
      run.beta = 0.7f;
      ExpectConforms(attention, run, 3);
    }
  }
}

TEST_P(BlockSelectorTest, GroupSoftmaxWithBudgetsAndWithCoveredMass) {
  for (const auto& [stride, head_dim] : {std::pair{8, 64}, {16, 72}}) {
    PagedAttentionCase attention(
        {.num_heads = 3, .num_kv_heads = 1, .head_dim = head_dim, .block_size = 16},
        {{700, 200, 1}, {512, 256, 2}});
    BlockSelectionRun run = RunWith(BlockScore::kAntidiagonalSoftmax, ValueTerm::kOff, stride, 3);
    ExpectConforms(attention, run, 7);
    run.rules.local_blocks = 1;
    for (const float mass : {0.5f, 0.9f, 1.0f}) {
      run.rules.covered_mass = mass;
      ExpectConforms(attention, run, 100);
    }
  }
}

TEST_P(BlockSelectorTest, ExactMassIsTheMassOfDenseAttention) {
  PagedAttentionCase attention(
      {.num_heads = 2, .num_kv_heads = 1, .head_dim = 64, .kv_dtype = DType::kF32},
      {{512, 200, 1}});
  BlockSelectionRun run = RunWith(BlockScore::kExactMass, ValueTerm::kOff, 16, 3);
  ExpectConforms(attention, run, 1);
  const std::unique_ptr<SelectedBlocks> selected = Select(attention, run);
  for (int row = 0; row < 2; ++row) {
    double total = 0;
    for (const float mass : selected->Scores(row, 1, 4 + row)) total += mass;
    EXPECT_NEAR(total, 1, 1e-5);
  }
}

TEST_P(BlockSelectorTest, ForcedBlocksInBudgetAndSharedGroups) {
  PagedAttentionCase attention({.num_heads = 6, .num_kv_heads = 2, .head_dim = 64},
                               {{1152, 300, 1}});
  for (const bool in_budget : {false, true}) {
    for (const bool shares : {false, true}) {
      BlockSelectionRun run = RunWith(BlockScore::kAntidiagonal, ValueTerm::kOff, 16, 5);
      run.rules.forced_in_budget = in_budget;
      run.rules.shares_group = shares;
      ExpectConforms(attention, run, 1000);
    }
  }
}

TEST_P(BlockSelectorTest, NoScoreReadsForcedBlocksAlone) {
  PagedAttentionCase attention({.num_heads = 4, .num_kv_heads = 2, .head_dim = 64},
                               {{1000, 200, 1}});
  const auto selected =
      Select(attention, RunWith(BlockScore::kNone, ValueTerm::kCalibrated, 16, 0));
  EXPECT_EQ(selected->selection.scores, nullptr);
  ForEachQueryBlock(attention, [&](int, int own, std::int64_t row) {
    for (int head = 0; head < 4; ++head) {
      EXPECT_EQ(selected->List(row, head, own), (std::set<int>{0, own - 1, own}));
    }
  });
}

TEST_P(BlockSelectorTest, RandomScoresDependOnSeedLayerHeadAndPosition) {
  PagedAttentionCase attention({.num_heads = 2, .num_kv_heads = 1, .head_dim = 8},
                               {{2048, 256, 1}});
  PagedAttentionCase chunk({.num_heads = 2, .num_kv_heads = 1, .head_dim = 8}, {{2176, 128, 1}});
  BlockSelectionRun run = RunWith(BlockScore::kRandom, ValueTerm::kOff, 16, 5);
  const auto first = Select(attention, run);
  EXPECT_EQ(first->List(1, 0, 17), Select(attention, run)->List(1, 0, 17));
  EXPECT_EQ(first->List(1, 0, 17), Select(chunk, run)->List(0, 0, 17));
  EXPECT_NE(first->List(1, 0, 17), first->List(1, 1, 17));
  EXPECT_NE(first->List(1, 0, 17), first->List(0, 0, 16));
  run.layer_index = 1;
  EXPECT_NE(first->List(1, 0, 17), Select(attention, run)->List(1, 0, 17));
  run.layer_index = 0;
  run.rules.seed = 1;
  EXPECT_NE(first->List(1, 0, 17), Select(attention, run)->List(1, 0, 17));
  for (const float score : first->Scores(1, 0, 17)) {
    EXPECT_GE(score, 0);
    EXPECT_LT(score, 1);
  }
}

TEST_P(BlockSelectorTest, ScoresThatAreNotFiniteRankLast) {
  PagedAttentionCase attention({.num_heads = 1, .num_kv_heads = 1, .head_dim = 64},
                               {{1280, 128, 1}});
  const std::vector<float> nan(64, std::nanf("")), infinite(64, INFINITY);
  attention.SetKey(0, 0, 3 * kSelectionBlock + 5, nan);
  attention.SetKey(0, 0, 5 * kSelectionBlock + 9, infinite);
  BlockSelectionRun run = RunWith(BlockScore::kAntidiagonal, ValueTerm::kOff, 16, 9);
  const auto selected = Select(attention, run);
  EXPECT_FALSE(std::isfinite(selected->Scores(0, 0, 10)[3]));
  EXPECT_FALSE(std::isfinite(selected->Scores(0, 0, 10)[5]));
  EXPECT_EQ(selected->List(0, 0, 10), (std::set<int>{0, 1, 2, 4, 6, 7, 8, 9, 10}));
}

TEST_P(BlockSelectorTest, RefusesWhatDisagrees) {
  PagedAttentionCase attention({.num_heads = 2, .num_kv_heads = 1, .head_dim = 64},
                               {{600, 100, 1}});
  const auto message = [&](const BlockSelectionRun& run) {
    const absl::Status status = RunBlockSelector(attention, *backend_, run).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  const BlockSelectionRun good = RunWith(BlockScore::kAntidiagonal, ValueTerm::kOff, 16, 3);
  BlockSelectionRun run = good;
  run.rules.stride = 12;
  EXPECT_EQ(message(run), "block selection: stride % 8 is 4, expected 0");
  run = good;
  run.rules.local_blocks = 0;
  EXPECT_EQ(message(run), "block selection: local_blocks is 0, expected 1 to 65536");
  run = good;
  run.rules.sink_blocks = -1;
  EXPECT_EQ(message(run), "block selection: sink_blocks is -1, expected 0 to 65536");
  run = good;
  run.rules.covered_mass = 0.5f;
  EXPECT_EQ(message(run), "block selection: covered_mass needs a score that is a share of mass");
  run.rules.score = BlockScore::kAntidiagonalSoftmax;
  run.rules.covered_mass = 1.5f;
  EXPECT_EQ(message(run), "block selection: covered_mass is 1.500000, expected 0 to 1");
  run = good;
  run.rules.value_term = ValueTerm::kCalibrated;
  EXPECT_EQ(message(run), "block selection: the value term needs statistics that are not given");
  OwnedValueStatistics statistics = CalibrateValues(attention, 16);
  statistics.std[0] = 0;
  run.statistics = statistics.View();
  EXPECT_EQ(message(run),
            "block selection: the value statistics of KV head 0 are not finite and positive");
  run = good;
  run.budget = [](int, int) { return -2; };
  EXPECT_EQ(message(run), "block selection: budget is -2, expected -1 to 16777216");
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, BlockSelectorTest, testing::ValuesIn(kCpuVariants),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace thresher
