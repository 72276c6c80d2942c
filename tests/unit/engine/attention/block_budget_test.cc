#include "engine/attention/block_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace thresher {
namespace {

constexpr ForcedBlocks kForced;

BudgetSchedule Code(int mu_per_mille) { return {.mu_per_mille = mu_per_mille}; }

std::int64_t Total(const PromptBudget& budget) {
  return CountBlocks(budget, {.sink = 0, .local = 0}).fewest;
}

// Oracle item 4 of the method: the tabulated initial budgets of the code's form.
TEST(BlockBudgetTest, Oracle4ScheduleHasTheTabulatedInitialBudgets) {
  const int table[][2] = {{55, 55},  {56, 41},  {57, 41},  {64, 42},   {128, 55},
                          {159, 61}, {160, 46}, {256, 55}, {1024, 132}};
  for (const auto& [n, k0] : table) {
    EXPECT_EQ(PromptBudget(Code(700), n).initial(), k0) << n;
    EXPECT_EQ(PromptBudget(Code(700), n).At(0), k0) << n;
  }
}

TEST(BlockBudgetTest, Oracle4ScheduleFallsFromK0ToMuK0) {
  for (const int mu : {1, 333, 700, 999, 1000}) {
    for (int n = 56; n <= 1100; ++n) {
      const PromptBudget budget(Code(mu), n);
      const int k0 = budget.initial();
      ASSERT_EQ(budget.At(k0), k0) << n;
      ASSERT_EQ(budget.At(n - 1), n - k0 <= 1 ? k0 : std::max(1, k0 * mu / 1000)) << n;
      for (int i = 1; i < n; ++i) {
        ASSERT_LE(budget.At(i), budget.At(i - 1)) << n << ", " << i;
        ASSERT_GE(budget.At(i), 1);
      }
    }
  }
}

// Against the exact rational, of which binary fractions miss a row in ten thousand.
TEST(BlockBudgetTest, Oracle4ScheduleIsTheExactRational) {
  for (const int n : {57, 128, 160, 777, 1024}) {
    const PromptBudget budget(Code(700), n);
    const std::int64_t k0 = budget.initial();
    for (std::int64_t i = k0; i < n; ++i) {
      const std::int64_t whole = 1000 * (n - k0 - 1);
      const std::int64_t numerator = k0 * whole - k0 * 300 * (i - k0);
      ASSERT_EQ(budget.At(static_cast<int>(i)), numerator / whole) << n << ", " << i;
    }
  }
}

TEST(BlockBudgetTest, Oracle4ScheduleSumsToTheClosedFormWithinNBlocks) {
  for (const int n : {64, 128, 256, 512, 1024, 2048}) {
    const double area = 0.5 * n * n;
    for (const int mu : {500, 700, 1000}) {
      const PromptBudget code(Code(mu), n);
      const double kappa = static_cast<double>(code.initial()) / n, m = mu / 1000.0;
      EXPECT_NEAR(Total(code), area * (kappa * kappa + (1 - kappa) * kappa * (1 + m)), n);
      BudgetSchedule schedule = PaperSchedule(1);
      schedule.mu_per_mille = mu;
      const double share = n <= 128 ? 0.2 : 0.1;
      EXPECT_NEAR(Total(PromptBudget(schedule, n)),
                  area * (share * (1 + m) - share * share / (1 + (1 - m) * share)), n);
      schedule.form = BudgetForm::kUniform;
      EXPECT_NEAR(Total(PromptBudget(schedule, n)), area * (2 * share - share * share), n);
    }
  }
}

// The cost table of the specification, in blocks.
TEST(BlockBudgetTest, Oracle4ScheduleHasTheExactBlockCounts) {
  struct Row {
    int n, k0;
    std::int64_t code, code_most, paper, paper_most, floored, uniform;
  };
  const Row rows[] = {{64, 42, 1680, 1839, 653, 1039, 1810, 1827},
                      {128, 55, 4917, 5480, 2543, 3344, 4650, 5555},
                      {256, 55, 10835, 12421, 5384, 7204, 10515, 12595},
                      {512, 81, 32778, 36204, 21272, 24940, 22353, 38232},
                      {1024, 132, 108422, 115536, 84561, 91925, 84561, 126522},
                      {2048, 234, 387392, 401882, 337196, 351960, 337196, 451971}};
  for (const Row& row : rows) {
    const PromptBudget code(Code(700), row.n);
    EXPECT_EQ(code.initial(), row.k0);
    const PromptBlocks blocks = CountBlocks(code, kForced);
    EXPECT_EQ(Total(code), row.code) << row.n;
    EXPECT_EQ(blocks.most, row.code_most) << row.n;
    EXPECT_EQ(blocks.causal, std::int64_t{row.n} * (row.n + 1) / 2);
    const PromptBudget paper(PaperSchedule(1), row.n);
    EXPECT_EQ(Total(paper), row.paper) << row.n;
    EXPECT_EQ(CountBlocks(paper, kForced).most, row.paper_most) << row.n;
    EXPECT_EQ(Total(PromptBudget(PaperSchedule(54), row.n)), row.floored) << row.n;
    EXPECT_EQ(Total(PromptBudget(Code(1000), row.n)), row.uniform) << row.n;
  }
}

TEST(BlockBudgetTest, MatchedUniformCostsWhatTheDecayCosts) {
  for (int n = 64; n < 700; ++n) {
    for (const bool paper : {false, true}) {
      BudgetSchedule schedule = paper ? PaperSchedule(1) : Code(700);
      const std::int64_t aim = Total(PromptBudget(schedule, n));
      schedule.form = paper ? BudgetForm::kUniformAtPaperCost : BudgetForm::kUniformAtCodeCost;
      const PromptBudget uniform(schedule, n);
      const int k = uniform.At(0);
      for (int i = 0; i < n; ++i) ASSERT_EQ(uniform.At(i), k);
      // No other constant is nearer.
      const std::int64_t difference = std::abs(Total(uniform) - aim);
      schedule.form = BudgetForm::kUniform;
      schedule.short_rate_per_mille = schedule.long_rate_per_mille = 0;
      for (const int other : {k - 1, k + 1}) {
        if (other < 1) continue;
        schedule.short_bias = schedule.long_bias = other;
        ASSERT_LE(difference, std::abs(Total(PromptBudget(schedule, n)) - aim)) << n;
      }
    }
  }
}

TEST(BlockBudgetTest, AlwaysDenseBlocksAreDenseAtEveryLength) {
  EXPECT_EQ(NumAlwaysDenseBlocks(Code(700), kForced), 41);
  EXPECT_EQ(NumAlwaysDenseBlocks(Code(1000), kForced), 41);
  // 12.8 - 3.84 · 12 / 64 rounds up to 13, so row 12 is dense in the shortest sparse prompt.
  EXPECT_EQ(NumAlwaysDenseBlocks(PaperSchedule(1), kForced), 13);
  EXPECT_EQ(NumAlwaysDenseBlocks(PaperSchedule(1), {.sink = 4, .local = 16}), 20);
  BudgetSchedule floored = Code(700);
  floored.k0_floor = 54;
  EXPECT_EQ(NumAlwaysDenseBlocks(floored, kForced), 54);
  BudgetSchedule constant = Code(700);
  constant.long_rate_per_mille = 0;  // the budget stays at 30 blocks however long the prompt is
  EXPECT_EQ(NumAlwaysDenseBlocks(constant, kForced), 30);
  for (const BudgetSchedule& schedule : {Code(700), Code(200), PaperSchedule(1), PaperSchedule(54),
                                         BudgetSchedule{.form = BudgetForm::kUniform}}) {
    int fewest = 1 << 30;
    for (int n = schedule.dense_below; n < 3000; ++n) {
      const PromptBudget budget(schedule, n);
      int dense = 0;
      while (dense < n && ReadsAllBlocks(budget, kForced, dense)) ++dense;
      fewest = std::min(fewest, dense);
    }
    EXPECT_EQ(NumAlwaysDenseBlocks(schedule, kForced), fewest);
  }
  for (const BudgetForm form : {BudgetForm::kUniformAtCodeCost, BudgetForm::kUniformAtPaperCost}) {
    BudgetSchedule schedule = Code(700);
    schedule.form = form;
    const int bound = NumAlwaysDenseBlocks(schedule, kForced);
    EXPECT_GT(bound, 0);
    for (int n = schedule.dense_below; n < 1000; ++n) {
      ASSERT_TRUE(ReadsAllBlocks(PromptBudget(schedule, n), kForced, bound - 1)) << n;
    }
  }
}

TEST(BlockBudgetTest, ShortPromptsAndLastBlocksAreDense) {
  for (const int n : {1, 8, 55}) {
    const PromptBudget budget(Code(700), n);
    EXPECT_EQ(CountBlocks(budget, kForced).most, std::int64_t{n} * (n + 1) / 2);
    for (int i = 0; i < n; ++i) EXPECT_TRUE(ReadsAllBlocks(budget, kForced, i));
  }
  BudgetSchedule schedule = Code(700);
  schedule.last_dense_blocks = 2;
  const PromptBudget budget(schedule, 200);
  EXPECT_FALSE(ReadsAllBlocks(budget, kForced, 197));
  EXPECT_TRUE(ReadsAllBlocks(budget, kForced, 198));
  EXPECT_TRUE(ReadsAllBlocks(budget, kForced, 199));
  schedule.last_dense_blocks = 1000;
  EXPECT_TRUE(ReadsAllBlocks(PromptBudget(schedule, 200), kForced, 0));
}

TEST(BlockBudgetTest, MonotoneKeepsK0FromFalling) {
  BudgetSchedule schedule = Code(700);
  schedule.monotone = true;
  int last = 0;
  for (int n = 56; n < 2000; ++n) {
    const PromptBudget budget(schedule, n);
    EXPECT_GE(budget.initial(), last);
    EXPECT_GE(budget.initial(), PromptBudget(Code(700), n).initial());
    EXPECT_EQ(budget.initial(), std::max(std::min(n / 5 + 30, 61), n / 10 + 30));
    last = budget.initial();
  }
}

TEST(BlockBudgetTest, FloorsHoldForK0AndForRows) {
  BudgetSchedule schedule = Code(500);
  schedule.k0_floor = 80;
  EXPECT_EQ(PromptBudget(schedule, 128).initial(), 80);
  EXPECT_EQ(PromptBudget(schedule, 128).At(127), 40);
  EXPECT_EQ(PromptBudget(schedule, 70).initial(), 70);  // not above the prompt's blocks
  schedule.row_floor = 54;
  EXPECT_EQ(PromptBudget(schedule, 128).At(127), 54);
}

TEST(BlockBudgetTest, ForcedBlocksAddToTheBudgetOrCountAgainstIt) {
  const PromptBudget budget(Code(700), 256);
  const PromptBlocks beside = CountBlocks(budget, {.sink = 4, .local = 4});
  EXPECT_EQ(beside.fewest, 10835);
  EXPECT_EQ(beside.most, 12421);
  const PromptBlocks within = CountBlocks(budget, {.sink = 4, .local = 4, .in_budget = true});
  EXPECT_EQ(within.fewest, 10835);
  EXPECT_EQ(within.most, 10835);
}

TEST(BlockBudgetTest, LongestPromptDoesNotOverflow) {
  for (const BudgetSchedule& schedule : {Code(1), PaperSchedule(54)}) {
    BudgetSchedule whole = schedule;
    whole.long_rate_per_mille = 1000;
    const PromptBudget budget(whole, kMaxPromptBlocks);
    EXPECT_EQ(budget.initial(), kMaxPromptBlocks);
    EXPECT_GE(budget.At(kMaxPromptBlocks - 1), 1);
    EXPECT_LE(budget.At(kMaxPromptBlocks - 1), kMaxPromptBlocks);
  }
}

TEST(BlockBudgetTest, RefusesFieldsOutOfRange) {
  EXPECT_TRUE(ValidateBudgetSchedule(Code(700)).ok());
  EXPECT_TRUE(ValidateBudgetSchedule(PaperSchedule(54)).ok());
  EXPECT_EQ(ValidateBudgetSchedule(Code(0)).message(),
            "mu in thousandths is 0; it must be 1 to 1000");
  EXPECT_EQ(ValidateBudgetSchedule({.short_bias = -1}).message(),
            "block_lists.short_bias is -1; it must be 0 to 65536");
  EXPECT_FALSE(ValidateBudgetSchedule(Code(1001)).ok());
  EXPECT_FALSE(ValidateBudgetSchedule({.short_rate_per_mille = -1}).ok());
  EXPECT_FALSE(ValidateBudgetSchedule({.long_bias = -1}).ok());
  EXPECT_FALSE(ValidateBudgetSchedule({.dense_below = 0}).ok());
  EXPECT_FALSE(ValidateBudgetSchedule({.dense_below = 56, .long_from = 55}).ok());
  EXPECT_FALSE(ValidateBudgetSchedule({.k0_floor = 0}).ok());
  EXPECT_FALSE(ValidateBudgetSchedule({.row_floor = kMaxPromptBlocks + 1}).ok());
  EXPECT_FALSE(ValidateBudgetSchedule({.last_dense_blocks = -1}).ok());
}

}  // namespace
}  // namespace thresher
