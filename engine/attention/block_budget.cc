#include "engine/attention/block_budget.h"

#include <algorithm>
#include <string>
#include <utility>

namespace thresher {
namespace {

std::int64_t RoundUp(std::int64_t numerator, std::int64_t denominator) {
  return (numerator + denominator - 1) / denominator;
}

bool IsPaper(BudgetForm form) {
  return form == BudgetForm::kPaper || form == BudgetForm::kUniformAtPaperCost;
}

// k0 in thousandths of a block, of the short or the long prompts.
std::int64_t InitialPerMille(const BudgetSchedule& schedule, int num_blocks, bool is_long) {
  const std::int64_t rate = is_long ? schedule.long_rate_per_mille : schedule.short_rate_per_mille;
  const std::int64_t bias = is_long ? schedule.long_bias : schedule.short_bias;
  std::int64_t share = rate * num_blocks;
  if (!IsPaper(schedule.form)) share -= share % 1000;
  return share + 1000 * bias;
}

std::int64_t InitialPerMille(const BudgetSchedule& schedule, int num_blocks) {
  if (num_blocks < schedule.dense_below) return std::int64_t{1000} * num_blocks;
  const bool is_long = num_blocks >= schedule.long_from;
  std::int64_t k0 = InitialPerMille(schedule, num_blocks, is_long);
  if (schedule.monotone && is_long) {
    k0 = std::max(k0, InitialPerMille(schedule, schedule.long_from - 1, false));
  }
  k0 = std::max(k0, std::int64_t{1000} * schedule.k0_floor);
  return std::min(k0, std::int64_t{1000} * num_blocks);
}

// Σ min(i + 1, k) over n rows.
std::int64_t UniformTotal(std::int64_t n, std::int64_t k) { return n * k - k * (k - 1) / 2; }

// The k in [1, n] whose total is nearest to `total`; the smaller of two.
int NearestUniform(std::int64_t n, std::int64_t total) {
  std::int64_t low = 1, high = n;  // the largest k whose total is at most `total`
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    if (UniformTotal(n, middle) <= total) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const bool next_is_nearer =
      low < n && UniformTotal(n, low + 1) - total < total - UniformTotal(n, low);
  return static_cast<int>(next_is_nearer ? low + 1 : low);
}

}  // namespace

BudgetSchedule PaperSchedule(int k0_floor) {
  return {.form = BudgetForm::kPaper,
          .short_bias = 0,
          .long_bias = 0,
          .dense_below = 64,
          .long_from = 129,
          .k0_floor = k0_floor};
}

absl::Status ValidateBudgetSchedule(const BudgetSchedule& schedule) {
  struct Field {
    const char* name;
    int value, minimum, maximum;
  };
  const Field fields[] = {
      {"mu in thousandths", schedule.mu_per_mille, 1, 1000},
      {"block_lists.short_rate_per_mille", schedule.short_rate_per_mille, 0, 1000},
      {"block_lists.short_bias", schedule.short_bias, 0, kMaxPromptBlocks},
      {"block_lists.long_rate_per_mille", schedule.long_rate_per_mille, 0, 1000},
      {"block_lists.long_bias", schedule.long_bias, 0, kMaxPromptBlocks},
      {"block_lists.dense_below", schedule.dense_below, 1, kMaxPromptBlocks},
      {"block_lists.long_from", schedule.long_from, schedule.dense_below, kMaxPromptBlocks + 1},
      {"block_lists.k0_floor", schedule.k0_floor, 1, kMaxPromptBlocks},
      {"block_lists.row_floor", schedule.row_floor, 1, kMaxPromptBlocks},
      {"block_lists.last_dense_blocks", schedule.last_dense_blocks, 0, kMaxPromptBlocks},
  };
  for (const Field& field : fields) {
    if (field.value >= field.minimum && field.value <= field.maximum) continue;
    return absl::InvalidArgumentError(
        std::string(field.name) + " is " + std::to_string(field.value) + "; it must be " +
        std::to_string(field.minimum) + " to " + std::to_string(field.maximum));
  }
  return absl::OkStatus();
}

PromptBudget::PromptBudget(const BudgetSchedule& schedule, int num_blocks)
    : form_(schedule.form),
      num_blocks_(num_blocks),
      mu_per_mille_(schedule.mu_per_mille),
      row_floor_(schedule.row_floor),
      first_dense_(std::max(0, num_blocks - schedule.last_dense_blocks)),
      k0_per_mille_(InitialPerMille(schedule, num_blocks)) {
  if (num_blocks < schedule.dense_below) {
    first_dense_ = 0;
  } else if (form_ == BudgetForm::kUniformAtCodeCost || form_ == BudgetForm::kUniformAtPaperCost) {
    const BudgetForm uniform = std::exchange(
        form_, form_ == BudgetForm::kUniformAtCodeCost ? BudgetForm::kCode : BudgetForm::kPaper);
    std::int64_t total = 0;
    for (int i = 0; i < num_blocks; ++i) total += std::min(i + 1, Decayed(i));
    k0_per_mille_ = std::int64_t{1000} * NearestUniform(num_blocks, total);
    form_ = uniform;
  }
}

int PromptBudget::At(int query_block) const {
  return query_block >= first_dense_ ? num_blocks_ : std::max(row_floor_, Decayed(query_block));
}

int PromptBudget::Decayed(int query_block) const {
  const std::int64_t n = num_blocks_, i = query_block, lost = 1000 - mu_per_mille_;
  if (form_ == BudgetForm::kPaper) {
    return static_cast<int>(RoundUp(k0_per_mille_ * (1000 * n - lost * i), 1000 * 1000 * n));
  }
  const std::int64_t k0 = initial();
  if (form_ != BudgetForm::kCode || i <= k0 || n - k0 <= 1) return static_cast<int>(k0);
  // mu · k0 may round down to 0.
  return static_cast<int>(
      std::max<std::int64_t>(1, k0 - RoundUp(k0 * lost * (i - k0), 1000 * (n - k0 - 1))));
}

bool ReadsAllBlocks(const PromptBudget& budget, const ForcedBlocks& forced, int query_block) {
  return query_block + 1 <= std::max(budget.At(query_block), forced.sink + forced.local);
}

PromptBlocks CountBlocks(const PromptBudget& budget, const ForcedBlocks& forced) {
  PromptBlocks blocks;
  for (int i = 0; i < budget.num_blocks(); ++i) {
    const int k = budget.At(i), num_forced = forced.sink + forced.local;
    blocks.causal += i + 1;
    blocks.fewest += std::min(i + 1, std::max(k, num_forced));
    blocks.most += std::min(i + 1, forced.in_budget ? std::max(k, num_forced) : k + num_forced);
  }
  return blocks;
}

int NumAlwaysDenseBlocks(const BudgetSchedule& schedule, const ForcedBlocks& forced) {
  BudgetSchedule decaying = schedule;
  decaying.last_dense_blocks = 0;
  const bool is_matched = schedule.form == BudgetForm::kUniformAtCodeCost ||
                          schedule.form == BudgetForm::kUniformAtPaperCost;
  if (is_matched) decaying.form = IsPaper(schedule.form) ? BudgetForm::kPaper : BudgetForm::kCode;
  const int num_forced = forced.sink + forced.local;
  int dense = schedule.dense_below;
  for (int n = schedule.dense_below; n <= kMaxPromptBlocks; ++n) {
    const PromptBudget budget(decaying, n);
    const int smallest = std::max(budget.At(n - 1), num_forced);
    // The smallest budget rises with N among the long prompts.
    if (smallest >= dense && n >= schedule.long_from) break;
    if (is_matched) {
      // A mean is not below the smallest: near enough, and no sum over each N's rows.
      dense = std::min(dense, smallest);
    }
    // A budget never rises with i, so if row i is dense, so are those before it.
    while (dense > num_forced && !ReadsAllBlocks(budget, forced, dense - 1)) --dense;
  }
  return dense;
}

}  // namespace thresher
