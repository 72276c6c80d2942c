// How many blocks of keys each block of queries of a prompt may read: the schedules of Stem's
// token position decay and its uniform baselines, in integer arithmetic, so that every place that
// asks gets the same number. Which blocks those are is the selector's business.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace thresher {

// Blocks of a prompt at most: ids of blocks are 16 bits.
inline constexpr int kMaxPromptBlocks = 65536;

// With N the blocks of the whole prompt, i a query block (both counted from position 0), k0 the
// initial budget and mu the decay. Source: Stem, arXiv 2603.06274; the code's form is that of its
// reference implementation, which differs from the paper's.
enum class BudgetForm : std::uint8_t {
  kCode,     // k0 for i < k0, then a line from k0 down to mu · k0 at i = N − 1, rounded down
  kPaper,    // k0 − k0 (1 − mu) i / N, rounded up
  kUniform,  // k0
  kUniformAtCodeCost,   // the constant whose total over the prompt is nearest to that of kCode
  kUniformAtPaperCost,  // and to that of kPaper
};

// k0 = max(k0_floor, rate · N + bias), with the short rate for N in [dense_below, long_from) and
// the long one from there on. kCode rounds rate · N down; kPaper keeps the fraction. The defaults
// are the code's table.
struct BudgetSchedule {
  BudgetForm form = BudgetForm::kCode;
  int mu_per_mille = 700;  // 1 to 1000
  int short_rate_per_mille = 200;
  int short_bias = 30;
  int long_rate_per_mille = 100;
  int long_bias = 30;
  int dense_below = 56;  // a prompt of fewer blocks is dense
  int long_from = 160;
  int k0_floor = 1;
  int row_floor = 1;  // of every row's budget
  // Keeps the largest k0 of the short prompts for the long ones, until theirs exceeds it: k0 then
  // never falls where one more token makes a prompt long.
  bool monotone = false;
  int last_dense_blocks = 0;  // query blocks at the prompt's end that read all
};

// The paper's table: 0.2 N up to 16k tokens, 0.1 N above, at least `k0_floor` (54 in its text; 1
// reproduces its reported budgets), dense below 8k tokens.
BudgetSchedule PaperSchedule(int k0_floor);

// InvalidArgument naming the field that is out of its range.
absl::Status ValidateBudgetSchedule(const BudgetSchedule& schedule);

// The budgets of one prompt. A value; the schedule has been validated, num_blocks is 1 to
// kMaxPromptBlocks.
class PromptBudget final {
 public:
  PromptBudget(const BudgetSchedule& schedule, int num_blocks);

  int num_blocks() const { return num_blocks_; }
  // k0, rounded up; num_blocks for a dense prompt.
  int initial() const { return static_cast<int>((k0_per_mille_ + 999) / 1000); }
  // Blocks that query block i, 0 ≤ i < num_blocks, may read before the forced ones; i + 1 or more
  // means all. num_blocks where the schedule asks for a dense row.
  int At(int query_block) const;

 private:
  int Decayed(int query_block) const;

  BudgetForm form_;
  int num_blocks_;
  int mu_per_mille_;
  int row_floor_;
  int first_dense_;  // query blocks from here on are dense
  std::int64_t k0_per_mille_;
};

// Blocks that are read whatever their scores: the first `sink` and the last `local` ones of a row.
struct ForcedBlocks {
  int sink = 4;
  int local = 4;
  bool in_budget = false;  // they count against the budget, which is then at least their number
};

// Whether query block i reads every block up to its own.
bool ReadsAllBlocks(const PromptBudget& budget, const ForcedBlocks& forced, int query_block);

// Blocks that a prompt reads in one head of one layer, over all its query blocks.
struct PromptBlocks {
  std::int64_t fewest = 0;  // every forced block is among the best
  std::int64_t most = 0;    // none is; equal to `fewest` with in_budget
  std::int64_t causal = 0;  // what dense attention reads
};
PromptBlocks CountBlocks(const PromptBudget& budget, const ForcedBlocks& forced);

// The first query blocks that read all blocks whatever the prompt's length: their results do not
// depend on it. 41 with the code's table. A lower bound for the forms of matched cost.
int NumAlwaysDenseBlocks(const BudgetSchedule& schedule, const ForcedBlocks& forced);

}  // namespace thresher
