#include "engine/attention/policies/block_list_policy.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/attention/attention_catalog.h"

namespace thresher {
namespace {

class BlockListPolicy final : public AttentionPolicy, public LayerSelector {
 public:
  BlockListPolicy(const BlockListRecipe& recipe, const PolicyResources& resources)
      : recipe_(recipe),
        settings_(resources.catalog.settings().block_lists),
        forced_(ForcedOf(recipe, settings_)),
        selector_(resources.backend.block_selector()),
        workspace_(resources.selection_workspace),
        is_dense_(static_cast<std::size_t>(resources.shape.num_layers), 0) {
    for (const int layer : settings_.dense_layers) {
      if (layer < resources.shape.num_layers) is_dense_[static_cast<std::size_t>(layer)] = 1;
    }
  }

  absl::Status Prepare(const PolicyResources& resources) {
    rules_.score = recipe_.score;
    rules_.stride = settings_.stride;
    rules_.sink_blocks = forced_.sink;
    rules_.local_blocks = forced_.local;
    rules_.forced_in_budget = forced_.in_budget;
    rules_.shares_group = settings_.shares_group;
    rules_.covered_mass = recipe_.covers_mass ? settings_.covered_mass : 0;
    rules_.value_term = recipe_.beta_index >= 0 ? settings_.value_term : ValueTerm::kOff;
    if (absl::Status status = TakeStatistics(resources); !status.ok()) return status;

    const AttentionLimits& limits = resources.limits;
    const int max_blocks = (limits.max_sequence_length + kSelectionBlock - 1) / kSelectionBlock;
    const std::size_t bytes = selector_.WorkspaceBytes(resources.largest_batch, rules_, max_blocks);
    if (workspace_.num_bytes() < bytes) {
      absl::StatusOr<DeviceBuffer> workspace = resources.backend.device().Allocate(bytes);
      if (!workspace.ok()) return workspace.status();
      workspace_ = *std::move(workspace);
    }

    // A sequence's queries touch at most two blocks more than they fill.
    const int sequences = std::min(limits.max_sequences, limits.max_tokens);
    const int query_blocks = limits.max_tokens / kSelectionBlock + 2 * sequences;
    const std::size_t list_bytes = static_cast<std::size_t>(query_blocks) *
                                   static_cast<std::size_t>(resources.shape.num_heads) *
                                   sizeof(std::int32_t);
    absl::StatusOr<DeviceBuffer> dense = resources.backend.device().Allocate(list_bytes);
    if (!dense.ok()) return dense.status();
    dense_lists_ = *std::move(dense);
    static_assert(kAllBlocks == -1);
    std::memset(dense_lists_.get(), 0xff, list_bytes);

    budget_.reserve(static_cast<std::size_t>(query_blocks));
    query_block_start_.reserve(static_cast<std::size_t>(limits.max_sequences) + 1);
    beta_.reserve(static_cast<std::size_t>(limits.max_sequences));
    return absl::OkStatus();
  }

  absl::StatusOr<LayerSelector*> Plan(std::span<const SequenceAttention> sequences,
                                      Stream&) override {
    query_block_start_.assign(1, 0);
    budget_.clear();
    beta_.clear();
    for (const SequenceAttention& sequence : sequences) {
      const PromptBudget budget(ScheduleOf(recipe_, settings_, sequence.parameters),
                                (sequence.prompt_length + kSelectionBlock - 1) / kSelectionBlock);
      const int last_row = sequence.context_length + sequence.query_length - 1;
      for (int i = sequence.context_length / kSelectionBlock; i <= last_row / kSelectionBlock;
           ++i) {
        const bool dense = IsDenseRow(recipe_, budget, forced_, i);
        budget_.push_back(dense ? kAllBlocks : recipe_.has_budget ? budget.At(i) : 0);
      }
      query_block_start_.push_back(static_cast<std::int32_t>(budget_.size()));
      beta_.push_back(recipe_.beta_index < 0
                          ? 0.0f
                          : static_cast<float>(
                                sequence.parameters[static_cast<std::size_t>(recipe_.beta_index)]));
    }
    return this;
  }

  absl::StatusOr<KvSelection> Select(int layer_index, const AttentionPlan& plan,
                                     const AttentionLayer& layer, Stream& stream) override {
    const auto index = static_cast<std::size_t>(layer_index);
    if (is_dense_[index] != 0) {
      selection_ = {.lists = {.query_block_start = query_block_start_,
                              .list_length = static_cast<const std::int32_t*>(dense_lists_.get()),
                              // Never read, but the kernel asks for memory of that size.
                              .blocks = static_cast<const std::uint16_t*>(dense_lists_.get()),
                              .capacity = 1}};
      return selection_.lists;
    }
    const BlockBudgets budgets{
        .query_block_start = query_block_start_, .budget = budget_, .beta = beta_};
    const ValueStatistics statistics = statistics_.empty() ? ValueStatistics{} : statistics_[index];
    if (absl::Status status = selector_.Run(plan, layer, layer_index, rules_, budgets, statistics,
                                            workspace_, stream, selection_);
        !status.ok()) {
      return status;
    }
    return selection_.lists;
  }

  const BlockSelection* block_selection() const override { return &selection_; }

 private:
  absl::Status TakeStatistics(const PolicyResources& resources) {
    const bool needed =
        rules_.value_term == ValueTerm::kCalibrated || rules_.value_term == ValueTerm::kCentred;
    if (!needed) return absl::OkStatus();
    const ThresholdTable* table = resources.catalog.table();
    if (table == nullptr || !table->has_values()) {
      // Then the catalog takes no beta but 0, which gives the term no weight.
      rules_.value_term = ValueTerm::kOff;
      return absl::OkStatus();
    }
    for (int layer = 0; layer < resources.shape.num_layers; ++layer) {
      absl::StatusOr<ValueStatistics> statistics =
          table->ValuesOf(layer, resources.shape.first_kv_head, resources.shape.num_kv_heads,
                          resources.shape.head_dim);
      if (!statistics.ok()) return statistics.status();
      statistics_.push_back(*statistics);
    }
    return absl::OkStatus();
  }

  const BlockListRecipe& recipe_;
  const BlockListSettings settings_;
  const ForcedBlocks forced_;
  const BlockSelector& selector_;
  DeviceBuffer& workspace_;
  std::vector<std::uint8_t> is_dense_;       // [num_layers]
  std::vector<ValueStatistics> statistics_;  // [num_layers], or empty
  BlockSelectionRules rules_;
  DeviceBuffer dense_lists_;
  // Of the step.
  std::vector<std::int32_t> query_block_start_, budget_;
  std::vector<float> beta_;
  BlockSelection selection_;  // of the layer
};

}  // namespace

absl::StatusOr<std::unique_ptr<AttentionPolicy>> CreateBlockListPolicy(
    const BlockListRecipe& recipe, const PolicyResources& resources) {
  auto policy = std::make_unique<BlockListPolicy>(recipe, resources);
  if (absl::Status status = policy->Prepare(resources); !status.ok()) return status;
  return policy;
}

}  // namespace thresher
