#include "engine/attention/policies/block_list_kind.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/attention/attention_catalog.h"
#include "engine/attention/policies/block_list_policy.h"
#include "engine/request_error.h"

namespace thresher {
namespace {

int NumPromptBlocks(int prompt_length) {
  return (prompt_length + kSelectionBlock - 1) / kSelectionBlock;
}

}  // namespace

BudgetSchedule ScheduleOf(const BlockListRecipe& recipe, const BlockListSettings& settings,
                          const ParameterValues& parameters) {
  BudgetSchedule schedule = settings.schedule;
  if (!recipe.has_budget) {
    // Of the schedule only its dense prompts and last dense rows are left.
    schedule.form = BudgetForm::kUniform;
    schedule.short_rate_per_mille = schedule.long_rate_per_mille = 0;
    schedule.short_bias = schedule.long_bias = 0;
    schedule.k0_floor = schedule.row_floor = 1;
  } else if (recipe.form != BudgetForm::kCode) {
    const bool matches_paper =
        recipe.form == BudgetForm::kUniformAtCodeCost && schedule.form == BudgetForm::kPaper;
    schedule.form = matches_paper ? BudgetForm::kUniformAtPaperCost : recipe.form;
  }
  if (recipe.mu_index >= 0) {
    schedule.mu_per_mille =
        static_cast<int>(parameters[static_cast<std::size_t>(recipe.mu_index)] * 1000 + 0.5);
  }
  return schedule;
}

const ForcedBlocks& ForcedOf(const BlockListRecipe& recipe, const BlockListSettings& settings) {
  return recipe.streams ? settings.streaming : settings.forced;
}

bool IsDenseRow(const BlockListRecipe& recipe, const PromptBudget& budget,
                const ForcedBlocks& forced, int query_block) {
  if (recipe.has_budget) return ReadsAllBlocks(budget, forced, query_block);
  // A dense prompt and the last dense rows have the whole prompt as their budget.
  return query_block < forced.sink + forced.local || budget.At(query_block) >= budget.num_blocks();
}

absl::Status BlockListKind::Check(const ParameterValues& parameters,
                                  const AttentionCatalog& catalog, const std::string& phase) const {
  if (recipe_.mu_index >= 0 &&
      ScheduleOf(recipe_, catalog.settings().block_lists, parameters).mu_per_mille < 1) {
    return FieldError(absl::StrCat(phase, ".mu"), "is below 0.001, its finest step");
  }
  if (recipe_.beta_index < 0) return absl::OkStatus();
  const ValueTerm term = catalog.settings().block_lists.value_term;
  const bool needs_statistics = term == ValueTerm::kCalibrated || term == ValueTerm::kCentred;
  const bool weighs_values = parameters[static_cast<std::size_t>(recipe_.beta_index)] != 0;
  if (!needs_statistics || !weighs_values) return absl::OkStatus();
  if (catalog.table() != nullptr && catalog.table()->has_values()) return absl::OkStatus();
  return FieldError(
      absl::StrCat(phase, ".beta"),
      absl::StrCat("is ", parameters[static_cast<std::size_t>(recipe_.beta_index)],
                   ", which needs value statistics calibrated for this model: make them with "
                   "`thresher calibrate --model MODEL --text FILE --out TABLE` and start with "
                   "--threshold-table TABLE, or ask for beta 0"));
}

PrefillFootprint BlockListKind::FootprintOf(const ParameterValues& parameters, int prompt_length,
                                            const AttentionCatalog& catalog) const {
  const BlockListSettings& settings = catalog.settings().block_lists;
  const int num_blocks = NumPromptBlocks(prompt_length);
  const PromptBudget budget(ScheduleOf(recipe_, settings, parameters), num_blocks);
  const ForcedBlocks& forced = ForcedOf(recipe_, settings);
  int dense = 0;
  while (dense < num_blocks && IsDenseRow(recipe_, budget, forced, dense)) ++dense;
  PrefillFootprint footprint;
  footprint.first_row = std::min(prompt_length, dense * kSelectionBlock);
  const bool scores = recipe_.score != BlockScore::kNone;
  // A list depends on all queries of its block, so the last, incomplete one on the prompt's end.
  footprint.length_bound_row =
      scores ? prompt_length / kSelectionBlock * kSelectionBlock : prompt_length;
  footprint.chunk_multiple = scores ? kSelectionBlock : 1;
  footprint.matches_loosely = settings.cache_match == CacheMatch::kLoose;
  footprint.shares_nothing = settings.cache_match == CacheMatch::kDenseOnly;
  std::vector<double> numbers;
  if (!footprint.matches_loosely) {
    numbers.assign(parameters.begin(), parameters.end());
    numbers.push_back(num_blocks);
  }
  footprint.salt = PolicySalt(recipe_.description.name, numbers);
  return footprint;
}

std::optional<DenseFallback> BlockListKind::FallbackOf(const SequenceAttention& sequence,
                                                       const AttentionCatalog& catalog) const {
  const int end = sequence.context_length + sequence.query_length;
  if (end != sequence.prompt_length) return std::nullopt;
  const BudgetSchedule schedule =
      ScheduleOf(recipe_, catalog.settings().block_lists, sequence.parameters);
  if (NumPromptBlocks(sequence.prompt_length) >= schedule.dense_below) return std::nullopt;
  return DenseFallback::kShortPrompt;
}

absl::StatusOr<std::unique_ptr<AttentionPolicy>> BlockListKind::Create(
    const PolicyResources& resources) const {
  return CreateBlockListPolicy(recipe_, resources);
}

}  // namespace thresher
