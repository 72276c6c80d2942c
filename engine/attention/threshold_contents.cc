#include "engine/attention/threshold_contents.h"

#include <cmath>
#include <span>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

absl::Status Wrong(std::string_view field, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(field), ": ", what));
}

absl::Status CheckRange(std::string_view field, std::int64_t value, std::int64_t limit) {
  if (value >= 1 && value <= limit) return absl::OkStatus();
  return Wrong(field, absl::StrCat(value, " is not in 1 … ", limit));
}

absl::Status CheckAxis(std::string_view field, std::span<const std::int32_t> axis, int limit) {
  if (absl::Status status = CheckRange(absl::StrCat("the number of ", std::string(field)),
                                       static_cast<std::int64_t>(axis.size()), limit);
      !status.ok()) {
    return status;
  }
  for (std::size_t i = 0; i < axis.size(); ++i) {
    const std::string name = absl::StrCat(std::string(field), "[", i, "]");
    if (absl::Status status = CheckRange(name, axis[i], ThresholdLimits::kTokens); !status.ok()) {
      return status;
    }
    if (i > 0 && axis[i] <= axis[i - 1]) {
      return Wrong(name, absl::StrCat(axis[i], " does not ascend from ", axis[i - 1]));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNumbers(const std::string& field, std::span<const float> values,
                          std::int64_t wanted, float lowest, float highest) {
  if (static_cast<std::int64_t>(values.size()) != wanted) {
    return Wrong(field, absl::StrCat(values.size(), " numbers instead of ", wanted));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i]) || values[i] < lowest || values[i] > highest) {
      return Wrong(field, absl::StrCat("number ", i, " is ", values[i], ", not in ", lowest, " … ",
                                       highest));
    }
  }
  return absl::OkStatus();
}

constexpr float kHuge = 1e30f;
constexpr float kTiny = 1e-30f;  // of what is divided by

absl::Status CheckPlacement(const ThresholdContents& table, int placement) {
  const PlacementThresholds& values = table.placements[static_cast<std::size_t>(placement)];
  const std::string prefix =
      absl::StrCat(std::array{"pre", "centred", "post"}[static_cast<std::size_t>(placement)], ".");
  const auto num_k = static_cast<std::int64_t>(table.k.size());
  const auto num_n = static_cast<std::int64_t>(table.n.size());
  const std::int64_t per_k = num_k * table.num_layers * table.num_heads, all = per_k * num_n;
  const bool post = placement == static_cast<int>(ThresholdPlacement::kPost);
  absl::Status status = CheckNumbers(prefix + "theta", values.theta, all, -kHuge, kHuge);
  if (status.ok()) {
    status =
        CheckNumbers(prefix + "slope", values.slope, per_k, post ? -kHuge : 0, post ? 0 : kHuge);
  }
  if (status.ok() && !values.dropped.empty()) {
    status = CheckNumbers(prefix + "dropped", values.dropped, all, 0, kHuge);
  }
  if (status.ok() && !values.gamma.empty()) {
    status = CheckNumbers(prefix + "gamma", values.gamma, per_k, 0, kHuge);
  }
  return status;
}

absl::Status CheckValues(const ThresholdContents& table) {
  const ValueMoments& values = table.values;
  if (values.mean.empty() && values.std.empty() && values.mean_value.empty() &&
      values.centred_mean.empty() && values.centred_std.empty()) {
    return absl::OkStatus();
  }
  const std::int64_t heads = std::int64_t{table.num_layers} * table.num_kv_heads;
  absl::Status status = CheckNumbers("values.mean", values.mean, heads, -kHuge, kHuge);
  if (status.ok()) status = CheckNumbers("values.std", values.std, heads, kTiny, kHuge);
  if (status.ok()) {
    status = CheckNumbers("values.centred_mean", values.centred_mean, heads, -kHuge, kHuge);
  }
  if (status.ok())
    status = CheckNumbers("values.centred_std", values.centred_std, heads, kTiny, kHuge);
  if (status.ok()) {
    status =
        CheckNumbers("values.mean_value", values.mean_value, heads * table.head_dim, -kHuge, kHuge);
  }
  return status;
}

}  // namespace

absl::Status ThresholdContents::Validate() const {
  using Limits = ThresholdLimits;
  absl::Status status = CheckRange("layers", num_layers, Limits::kLayers);
  if (status.ok()) status = CheckRange("heads", num_heads, Limits::kHeads);
  if (status.ok()) status = CheckRange("KV heads", num_kv_heads, num_heads);
  if (status.ok()) status = CheckRange("head_dim", head_dim, Limits::kHeadDim);
  if (!status.ok()) return status;
  if (num_heads % num_kv_heads != 0) {
    return Wrong("KV heads", absl::StrCat(num_kv_heads, " do not divide ", num_heads, " heads"));
  }
  if (status = CheckAxis("k", k, Limits::kTargets); !status.ok()) return status;
  if (status = CheckAxis("n", n, Limits::kLengths); !status.ok()) return status;
  const std::int64_t all = static_cast<std::int64_t>(k.size() * n.size()) * num_layers * num_heads;
  status = CheckRange("thresholds of a placement", all, Limits::kThresholds);
  if (!status.ok()) return status;
  if (samples.size() != n.size()) {
    return Wrong("samples", absl::StrCat(samples.size(), " numbers for ", n.size(), " lengths"));
  }
  for (const std::int64_t count : samples) {
    if (count < 0) return Wrong("samples", absl::StrCat(count, " is negative"));
  }
  bool any = false;
  for (int placement = 0; placement < kNumPlacements; ++placement) {
    if (placements[static_cast<std::size_t>(placement)].theta.empty()) continue;
    any = true;
    if (status = CheckPlacement(*this, placement); !status.ok()) return status;
  }
  if (!any) return Wrong("placements", "there is none");
  return CheckValues(*this);
}

}  // namespace thresher
