// What thresholds are compared with: the exact best keys of each row, and the pages whose bounds
// promise most (Quest, arXiv 2406.10774). The layers' k are top_theta's, so that costs match.
#include "engine/attention/attention_catalog.h"
#include "engine/attention/policies/policies.h"
#include "engine/attention/policies/row_targets.h"

namespace thresher {
namespace {

constexpr std::size_t kCompensates = 1;  // index among the parameters

class RankedKeysPolicy final : public AttentionPolicy, public LayerSelector {
 public:
  RankedKeysPolicy(bool by_pages, const PolicyResources& resources)
      : by_pages_(by_pages), targets_(resources.catalog.settings().top_theta.layers, resources) {
    compensates_.reserve(static_cast<std::size_t>(resources.limits.max_sequences));
  }

  absl::StatusOr<LayerSelector*> Plan(std::span<const SequenceAttention> sequences,
                                      Stream&) override {
    targets_.Plan(sequences);
    compensates_.clear();
    for (const SequenceAttention& sequence : sequences) {
      compensates_.push_back(sequence.parameters[kCompensates] != 0 ? 1 : 0);
    }
    return this;
  }

  absl::StatusOr<KvSelection> Select(int layer_index, const AttentionPlan&, const AttentionLayer&,
                                     Stream&) override {
    return SelectRanked{
        .targets = targets_.Of(layer_index), .by_pages = by_pages_, .compensates = compensates_};
  }

 private:
  const bool by_pages_;
  RowTargets targets_;
  std::vector<std::uint8_t> compensates_;  // [num_sequences] of the step
};

class RankedKeysKind final : public PolicyKind {
 public:
  RankedKeysKind(const char* name, bool by_pages, const char* help)
      : by_pages_(by_pages),
        description_{
            .name = name,
            .prefill = true,
            .decode = true,
            .parameters = {{.name = "k",
                            .minimum = by_pages ? double{kRankedPage} : 1,
                            .maximum = 1 << 20,
                            .default_value = 256,
                            .integer = true,
                            .help = "keys that a row reads; shorter rows are dense"},
                           {.name = "compensates",
                            .minimum = 0,
                            .maximum = 1,
                            .default_value = 0,
                            .integer = true,
                            .help = "1: dense weights, and the mean of the dropped values for the "
                                    "mass that they leave"}},
            .help = help} {}

  const PolicyDescription& description() const override { return description_; }
  AttentionMechanism mechanism() const override { return AttentionMechanism::kRanked; }
  bool evaluates_only() const override { return true; }
  absl::Status Check(const ParameterValues&, const AttentionCatalog&,
                     const std::string&) const override {
    return absl::OkStatus();
  }
  PrefillFootprint FootprintOf(const ParameterValues& parameters, int prompt_length,
                               const AttentionCatalog&) const override {
    return FootprintOfTarget(description_.name, parameters, prompt_length);
  }
  std::uint64_t DecodeSalt(const ParameterValues& parameters) const override {
    return PolicySalt(description_.name, parameters);
  }
  std::optional<DenseFallback> FallbackOf(const SequenceAttention& sequence,
                                          const AttentionCatalog&) const override {
    return FallbackOfTarget(sequence);
  }
  absl::StatusOr<std::unique_ptr<AttentionPolicy>> Create(
      const PolicyResources& resources) const override {
    return std::make_unique<RankedKeysPolicy>(by_pages_, resources);
  }

 private:
  const bool by_pages_;
  const PolicyDescription description_;
};

}  // namespace

const PolicyKind& TopKPolicyKind() {
  static const RankedKeysKind kind("top_k", false, "Reads each head's k largest scores.");
  return kind;
}

const PolicyKind& QuestPolicyKind() {
  static const RankedKeysKind kind(
      "quest", true,
      "Reads the k / 16 pages of 16 keys whose bounds are the largest of a KV head.");
  return kind;
}

}  // namespace thresher
