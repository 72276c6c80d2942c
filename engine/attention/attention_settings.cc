#include "engine/attention/attention_settings.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

constexpr char kTargetLayer[] = "top_theta.layers.layer.layer";
constexpr char kDenseLayer[] = "block_lists.dense_layers.layer";

absl::Status OutOfRange(const char* field, double value, const std::string& allowed) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; it must be ", allowed));
}

absl::Status CheckForced(const std::string& prefix, const ForcedBlocks& forced) {
  if (forced.sink < 0 || forced.sink > kMaxPromptBlocks) {
    return OutOfRange((prefix + "sink_blocks").c_str(), forced.sink,
                      absl::StrCat("0 to ", kMaxPromptBlocks));
  }
  if (forced.local < 1 || forced.local > kMaxPromptBlocks) {
    return OutOfRange((prefix + "local_blocks").c_str(), forced.local,
                      absl::StrCat("1 to ", kMaxPromptBlocks));
  }
  return absl::OkStatus();
}

absl::Status CheckTopTheta(const TopThetaSettings& settings) {
  std::vector<int> seen;
  for (const LayerTarget& target : settings.layers) {
    if (target.layer < 0) return OutOfRange(kTargetLayer, target.layer, "0 or more");
    if (target.k < 0) return OutOfRange("top_theta.layers.layer.k", target.k, "0 (dense) or more");
    if (std::ranges::find(seen, target.layer) != seen.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("top_theta.layers: layer ", target.layer, " is given twice"));
    }
    seen.push_back(target.layer);
  }
  if (settings.max_length_factor < 0) {
    return OutOfRange("top_theta.max_length_factor", settings.max_length_factor,
                      "0 (no limit) or more");
  }
  if (!(settings.gamma >= 0 && settings.gamma <= 1)) {
    return OutOfRange("top_theta.gamma", settings.gamma, "from 0 to 1");
  }
  const bool estimates_a_head = settings.denominator == DroppedDenominator::kExponential ||
                                settings.denominator == DroppedDenominator::kCalibrated;
  if (settings.promotes && estimates_a_head) {
    return absl::InvalidArgumentError(
        "top_theta.promotes must be false with an exponential or calibrated denominator, whose "
        "estimates speak of one head");
  }
  if (settings.denominator != DroppedDenominator::kNone && settings.value_mean == ValueMean::kOff) {
    return absl::InvalidArgumentError(
        "top_theta.value_mean must not be off with a denominator: the output would shrink by the "
        "dropped mass");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AttentionSettings::Validate() const {
  if (absl::Status status = CheckTopTheta(top_theta); !status.ok()) return status;
  if (absl::Status status = ValidateBudgetSchedule(block_lists.schedule); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckForced("block_lists.", block_lists.forced); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckForced("block_lists.streaming_", block_lists.streaming);
      !status.ok()) {
    return status;
  }
  if (block_lists.stride != 8 && block_lists.stride != 16) {
    return OutOfRange("block_lists.stride", block_lists.stride, "8 or 16");
  }
  if (!(block_lists.covered_mass > 0 && block_lists.covered_mass <= 1)) {
    return OutOfRange("block_lists.covered_mass", block_lists.covered_mass,
                      "above 0 and at most 1");
  }
  for (const int layer : block_lists.dense_layers) {
    if (layer < 0) return OutOfRange(kDenseLayer, layer, "0 or more");
  }
  if (shadow_interval < 0) return OutOfRange("--shadow-interval", shadow_interval, "0 or more");
  return absl::OkStatus();
}

absl::Status AttentionSettings::ValidateLayers(int num_layers) const {
  const auto check = [&](const char* field, int layer) {
    if (layer < std::max(num_layers, 2)) return absl::OkStatus();
    return OutOfRange(field, layer,
                      absl::StrCat("below ", num_layers, ", the model's number of layers"));
  };
  for (const LayerTarget& target : top_theta.layers) {
    if (absl::Status status = check(kTargetLayer, target.layer); !status.ok()) return status;
  }
  for (const int layer : block_lists.dense_layers) {
    if (absl::Status status = check(kDenseLayer, layer); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace thresher
