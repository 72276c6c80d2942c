// Keys whose score passes a threshold calibrated for a target of k, rows of up to k keys dense.
// Source: Top-θ attention, arXiv 2502.08363; specified in specs/top_theta.md of the design.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/attention/attention_catalog.h"
#include "engine/attention/policies/policies.h"
#include "engine/request_error.h"

namespace thresher {
namespace {

constexpr int kTarget = 0;  // index of k among the parameters

class TopThetaPolicy final : public AttentionPolicy, public LayerSelector {
 public:
  static absl::StatusOr<std::unique_ptr<AttentionPolicy>> Create(const PolicyResources& resources) {
    std::unique_ptr<TopThetaPolicy> policy(
        new TopThetaPolicy(resources.catalog.settings().top_theta));
    const AttentionShape& shape = resources.shape;
    const ThresholdTable& table = *resources.catalog.table();
    for (int layer = 0; layer < shape.num_layers; ++layer) {
      absl::StatusOr<ThresholdGrid> grid =
          table.GridOf(layer, policy->settings_.placement, shape.first_head, shape.num_heads);
      if (!grid.ok()) return grid.status();
      if (policy->settings_.denominator == DroppedDenominator::kCalibrated &&
          grid->dropped == nullptr) {
        return absl::FailedPreconditionError(
            "the threshold table has no dropped mass, which a calibrated denominator needs; "
            "calibrate again, or choose another denominator");
      }
      policy->grids_.push_back(*grid);
    }
    policy->least_target_.assign(static_cast<std::size_t>(shape.num_layers), kOwnTarget);
    for (const LayerTarget& target : policy->settings_.layers) {
      if (target.layer >= shape.num_layers) continue;
      policy->least_target_[static_cast<std::size_t>(target.layer)] =
          target.k == 0 ? kDense : target.k;
    }
    const auto max_sequences = static_cast<std::size_t>(resources.limits.max_sequences);
    policy->targets_.reserve(max_sequences);
    policy->layer_targets_.reserve(max_sequences);
    return policy;
  }

  absl::StatusOr<LayerSelector*> Plan(std::span<const SequenceAttention> sequences,
                                      Stream&) override {
    targets_.clear();
    for (const SequenceAttention& sequence : sequences) {
      targets_.push_back(static_cast<std::int32_t>(sequence.parameters[kTarget]));
    }
    return this;
  }

  absl::StatusOr<KvSelection> Select(int layer_index, const AttentionPlan&, const AttentionLayer&,
                                     Stream&) override {
    const std::int32_t least = least_target_[static_cast<std::size_t>(layer_index)];
    std::span<const std::int32_t> targets = targets_;
    if (least != kOwnTarget) {
      layer_targets_.clear();
      for (const std::int32_t target : targets_) {
        layer_targets_.push_back(least == kDense ? 0 : std::max(target, least));
      }
      targets = layer_targets_;
    }
    return SelectAboveThreshold{.grid = grids_[static_cast<std::size_t>(layer_index)],
                                .targets = targets,
                                .placement = settings_.placement,
                                .denominator = settings_.denominator,
                                .value_mean = settings_.value_mean,
                                .gamma = settings_.gamma,
                                .promotes = settings_.promotes};
  }

 private:
  static constexpr std::int32_t kOwnTarget = 0;
  static constexpr std::int32_t kDense = std::numeric_limits<std::int32_t>::max();

  explicit TopThetaPolicy(const TopThetaSettings& settings) : settings_(settings) {}

  const TopThetaSettings settings_;
  std::vector<ThresholdGrid> grids_;         // [num_layers]
  std::vector<std::int32_t> least_target_;   // [num_layers]
  std::vector<std::int32_t> targets_;        // [num_sequences] of the step
  std::vector<std::int32_t> layer_targets_;  // likewise, of a layer with a least target
};

class TopThetaKind final : public PolicyKind {
 public:
  const PolicyDescription& description() const override { return description_; }
  AttentionMechanism mechanism() const override { return AttentionMechanism::kAboveThreshold; }
  bool needs_table() const override { return true; }
  bool needs_sums(const AttentionCatalog& catalog) const override {
    const TopThetaSettings& settings = catalog.settings().top_theta;
    return catalog.table() != nullptr && (settings.placement == ThresholdPlacement::kCentred ||
                                          settings.value_mean != ValueMean::kOff);
  }

  void Narrow(const AttentionCatalog& catalog, PolicyDescription& description) const override {
    if (catalog.table() == nullptr) return;
    PolicyParameter& k = description.parameters[kTarget];
    k.minimum = catalog.table()->min_k();
    k.maximum = catalog.table()->max_k();
    k.default_value = std::clamp(k.default_value, k.minimum, k.maximum);
  }

  absl::Status Check(const ParameterValues&, const AttentionCatalog& catalog,
                     const std::string& phase) const override {
    if (catalog.table() != nullptr) return absl::OkStatus();
    return FieldError(absl::StrCat(phase, ".policy"),
                      "is 'top_theta', which needs thresholds calibrated for this model: make them "
                      "with `thresher calibrate --model MODEL --text FILE --out TABLE` and start "
                      "with --threshold-table TABLE");
  }

  PrefillFootprint FootprintOf(const ParameterValues& parameters, int prompt_length,
                               const AttentionCatalog&) const override {
    // The row at position p has p + 1 keys and is dense up to k of them.
    return {.first_row = static_cast<int>(parameters[kTarget]),
            .salt = PolicySalt("top_theta prefill", parameters),
            .length_bound_row = prompt_length};
  }

  std::uint64_t DecodeSalt(const ParameterValues& parameters) const override {
    return PolicySalt("top_theta", parameters);
  }

  std::optional<DenseFallback> FallbackOf(const SequenceAttention& sequence,
                                          const AttentionCatalog&) const override {
    if (sequence.context_length < sequence.prompt_length) {
      const bool ends = sequence.context_length + sequence.query_length == sequence.prompt_length;
      if (!ends || sequence.prompt_length > sequence.parameters[kTarget]) return std::nullopt;
      return DenseFallback::kShortPrompt;
    }
    const bool decodes_one =
        sequence.query_length == 1 && sequence.context_length >= sequence.prompt_length;
    if (!decodes_one || sequence.context_length + 1 > sequence.parameters[kTarget]) {
      return std::nullopt;
    }
    return DenseFallback::kShortRow;
  }

  absl::StatusOr<std::unique_ptr<AttentionPolicy>> Create(
      const PolicyResources& resources) const override {
    return TopThetaPolicy::Create(resources);
  }

 private:
  const PolicyDescription description_ = {
      .name = "top_theta",
      .prefill = true,
      .decode = true,
      .parameters = {{.name = "k",
                      .minimum = 1,
                      .maximum = 1 << 20,
                      .default_value = 256,
                      .integer = true,
                      .help = "keys that a row reads on average; shorter rows are dense"}},
      .help = "Reads the values whose score passes a threshold calibrated for a target of k."};
};

}  // namespace

const PolicyKind& TopThetaPolicyKind() {
  static const TopThetaKind kind;
  return kind;
}

}  // namespace thresher
