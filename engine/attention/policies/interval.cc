// Deletes a range of blocks of keys from a range of rows, to ask what an early or a late row loses
// with it. All layers, all heads; a row's own block stays.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/attention/attention_catalog.h"
#include "engine/attention/block_budget.h"
#include "engine/attention/policies/policies.h"
#include "engine/request_error.h"

namespace thresher {
namespace {

enum Parameter : std::size_t { kRowFrom, kRowTo, kBlockFrom, kBlockTo };

int ValueOf(const ParameterValues& parameters, Parameter parameter) {
  return static_cast<int>(parameters[parameter]);
}

// Blocks [first, end) that the queries of block `own` do not read.
struct Deleted {
  int first = 0, end = 0;
};
Deleted DeletedOf(const ParameterValues& parameters, int own) {
  if (own < ValueOf(parameters, kRowFrom) || own >= ValueOf(parameters, kRowTo)) return {};
  return {ValueOf(parameters, kBlockFrom), std::min(own, ValueOf(parameters, kBlockTo))};
}

class IntervalPolicy final : public AttentionPolicy, public LayerSelector {
 public:
  static absl::StatusOr<std::unique_ptr<AttentionPolicy>> Create(const PolicyResources& resources) {
    const AttentionLimits& limits = resources.limits;
    auto policy = std::make_unique<IntervalPolicy>();
    policy->num_heads_ = static_cast<std::size_t>(resources.shape.num_heads);
    policy->capacity_ = static_cast<std::size_t>(limits.max_sequence_length / kSelectionBlock) + 1;
    // A sequence's queries touch at most two blocks more than they fill.
    const std::size_t num_lists =
        policy->num_heads_ *
        static_cast<std::size_t>(limits.max_tokens / kSelectionBlock +
                                 2 * std::min(limits.max_sequences, limits.max_tokens));
    Device& device = resources.backend.device();
    absl::StatusOr<DeviceBuffer> lengths = device.Allocate(num_lists * sizeof(std::int32_t));
    if (!lengths.ok()) return lengths.status();
    policy->lengths_ = *std::move(lengths);
    absl::StatusOr<DeviceBuffer> blocks =
        device.Allocate(num_lists * policy->capacity_ * sizeof(std::uint16_t));
    if (!blocks.ok()) return blocks.status();
    policy->blocks_ = *std::move(blocks);
    policy->query_block_start_.reserve(static_cast<std::size_t>(limits.max_sequences) + 1);
    return policy;
  }

  absl::StatusOr<LayerSelector*> Plan(std::span<const SequenceAttention> sequences,
                                      Stream&) override {
    query_block_start_.assign(1, 0);
    std::size_t list = 0;
    for (const SequenceAttention& sequence : sequences) {
      const int first = sequence.context_length / kSelectionBlock;
      const int count = NumQueryBlocks(sequence.context_length, sequence.query_length);
      for (int own = first; own < first + count; ++own) {
        const Deleted deleted = DeletedOf(sequence.parameters, own);
        for (std::size_t head = 0; head < num_heads_; ++head) WriteList(list++, own, deleted);
      }
      query_block_start_.push_back(static_cast<std::int32_t>(list / num_heads_));
    }
    selection_ = {.lists = {.query_block_start = query_block_start_,
                            .list_length = static_cast<const std::int32_t*>(lengths_.get()),
                            .blocks = static_cast<const std::uint16_t*>(blocks_.get()),
                            .capacity = static_cast<int>(capacity_)}};
    return this;
  }

  absl::StatusOr<KvSelection> Select(int, const AttentionPlan&, const AttentionLayer&,
                                     Stream&) override {
    return selection_.lists;
  }
  const BlockSelection* block_selection() const override { return &selection_; }

 private:
  void WriteList(std::size_t list, int own, const Deleted& deleted) {
    auto* const length = static_cast<std::int32_t*>(lengths_.get()) + list;
    if (deleted.first >= deleted.end) {
      *length = kAllBlocks;
      return;
    }
    auto* const blocks = static_cast<std::uint16_t*>(blocks_.get()) + list * capacity_;
    *length = 0;
    for (int block = 0; block <= own; ++block) {
      if (block >= deleted.first && block < deleted.end) continue;
      blocks[(*length)++] = static_cast<std::uint16_t>(block);
    }
  }

  std::size_t num_heads_ = 0, capacity_ = 0;
  DeviceBuffer lengths_, blocks_;  // [query blocks, num_heads], [query blocks, num_heads, capacity]
  std::vector<std::int32_t> query_block_start_;
  BlockSelection selection_;
};

PolicyParameter BlockNumber(const char* name, double otherwise, const char* help) {
  return {.name = name,
          .minimum = 0,
          .maximum = kMaxPromptBlocks,
          .default_value = otherwise,
          .integer = true,
          .help = help};
}

class IntervalKind final : public PolicyKind {
 public:
  const PolicyDescription& description() const override { return description_; }
  AttentionMechanism mechanism() const override { return AttentionMechanism::kBlocks; }
  bool evaluates_only() const override { return true; }
  absl::Status Check(const ParameterValues& parameters, const AttentionCatalog&,
                     const std::string& phase) const override {
    for (const auto& [from, to] : {std::pair{kRowFrom, kRowTo}, {kBlockFrom, kBlockTo}}) {
      if (parameters[from] < parameters[to]) continue;
      return FieldError(absl::StrCat(phase, ".", description_.parameters[to].name),
                        absl::StrCat("is ", parameters[to], "; it must be above ",
                                     description_.parameters[from].name, ", ", parameters[from]));
    }
    return absl::OkStatus();
  }
  PrefillFootprint FootprintOf(const ParameterValues& parameters, int prompt_length,
                               const AttentionCatalog&) const override {
    return {.first_row = ValueOf(parameters, kRowFrom) * kSelectionBlock,
            .salt = PolicySalt(description_.name, parameters),
            .length_bound_row = prompt_length};
  }
  std::uint64_t DecodeSalt(const ParameterValues&) const override { return 0; }
  absl::StatusOr<std::unique_ptr<AttentionPolicy>> Create(
      const PolicyResources& resources) const override {
    return IntervalPolicy::Create(resources);
  }

 private:
  const PolicyDescription description_ = {
      .name = "interval",
      .prefill = true,
      .parameters = {BlockNumber("row_from", 0, "first block of queries that leaves blocks out"),
                     BlockNumber("row_to", kMaxPromptBlocks, "the block of queries after the last"),
                     BlockNumber("block_from", 0, "first block of keys left out"),
                     BlockNumber("block_to", 1, "the block of keys after the last")},
      .help = "Leaves a range of 128-token blocks of keys out of a range of rows."};
};

}  // namespace

const PolicyKind& IntervalPolicyKind() {
  static const IntervalKind kind;
  return kind;
}

}  // namespace thresher
