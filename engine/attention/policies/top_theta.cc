// Keys whose score passes a threshold calibrated for a target of k; rows of up to k keys are dense,
// and so are those that are too long for what was calibrated.
// Source: Top-θ attention, arXiv 2502.08363; specified in specs/top_theta.md of the design.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/attention/attention_catalog.h"
#include "engine/attention/policies/policies.h"
#include "engine/attention/policies/row_targets.h"
#include "engine/request_error.h"

namespace thresher {
namespace {

class TopThetaPolicy final : public AttentionPolicy, public LayerSelector {
 public:
  static absl::StatusOr<std::unique_ptr<AttentionPolicy>> Create(const PolicyResources& resources) {
    std::unique_ptr<TopThetaPolicy> policy(
        new TopThetaPolicy(resources.catalog.settings().top_theta, resources));
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
    return policy;
  }

  absl::StatusOr<LayerSelector*> Plan(std::span<const SequenceAttention> sequences,
                                      Stream&) override {
    targets_.Plan(sequences);
    return this;
  }

  absl::StatusOr<KvSelection> Select(int layer_index, const AttentionPlan&, const AttentionLayer&,
                                     Stream&) override {
    return SelectAboveThreshold{.grid = grids_[static_cast<std::size_t>(layer_index)],
                                .targets = targets_.Of(layer_index),
                                .longest_row = longest_row_,
                                .placement = settings_.placement,
                                .denominator = settings_.denominator,
                                .value_mean = settings_.value_mean,
                                .gamma = settings_.gamma,
                                .promotes = settings_.promotes};
  }

 private:
  TopThetaPolicy(const TopThetaSettings& settings, const PolicyResources& resources)
      : settings_(settings),
        longest_row_(resources.catalog.longest_thresholded_row()),
        targets_(settings.layers, resources) {}

  const TopThetaSettings settings_;
  const int longest_row_;
  std::vector<ThresholdGrid> grids_;  // [num_layers]
  RowTargets targets_;
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
    PolicyParameter& k = description.parameters[kTargetIndex];
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
    return FootprintOfTarget(description_.name, parameters, prompt_length);
  }

  std::uint64_t DecodeSalt(const ParameterValues& parameters) const override {
    return PolicySalt("top_theta", parameters);
  }

  std::optional<DenseFallback> FallbackOf(const SequenceAttention& sequence,
                                          const AttentionCatalog& catalog) const override {
    return FallbackOfTarget(sequence, catalog.longest_thresholded_row());
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
