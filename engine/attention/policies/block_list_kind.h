// What the policies that read lists of blocks have in common: each is a recipe.
#pragma once

#include "engine/attention/attention_settings.h"
#include "engine/attention/policy_kind.h"

namespace thresher {

// How a policy makes its lists.
struct BlockListRecipe {
  PolicyDescription description;
  BlockScore score = BlockScore::kAntidiagonal;
  bool evaluates_only = false;
  int mu_index = -1;    // of mu, the decay of the budget, among the parameters; −1: none
  int beta_index = -1;  // of beta, the weight of the value term, likewise
  // Rows have budgets of `form`; without, `covers_mass` or the forced blocks alone say enough.
  bool has_budget = true;
  BudgetForm form = BudgetForm::kCode;
  bool covers_mass = false;
  bool streams = false;  // the forced blocks are those of streaming
};

// The recipe under an operator's settings and a request's parameters.
BudgetSchedule ScheduleOf(const BlockListRecipe& recipe, const BlockListSettings& settings,
                          const ParameterValues& parameters);
const ForcedBlocks& ForcedOf(const BlockListRecipe& recipe, const BlockListSettings& settings);
// Whether query block i of a prompt with that budget reads all blocks up to its own.
bool IsDenseRow(const BlockListRecipe& recipe, const PromptBudget& budget,
                const ForcedBlocks& forced, int query_block);

class BlockListKind final : public PolicyKind {
 public:
  explicit BlockListKind(BlockListRecipe recipe) : recipe_(std::move(recipe)) {}

  const PolicyDescription& description() const override { return recipe_.description; }
  AttentionMechanism mechanism() const override { return AttentionMechanism::kBlocks; }
  bool evaluates_only() const override { return recipe_.evaluates_only; }
  absl::Status Check(const ParameterValues& parameters, const AttentionCatalog& catalog,
                     const std::string& phase) const override;
  PrefillFootprint FootprintOf(const ParameterValues& parameters, int prompt_length,
                               const AttentionCatalog& catalog) const override;
  std::uint64_t DecodeSalt(const ParameterValues&) const override { return 0; }
  std::optional<DenseFallback> FallbackOf(const SequenceAttention& sequence,
                                          const AttentionCatalog& catalog) const override;
  absl::StatusOr<std::unique_ptr<AttentionPolicy>> Create(
      const PolicyResources& resources) const override;

 private:
  const BlockListRecipe recipe_;
};

}  // namespace thresher
