#include "engine/attention/threshold_table.h"

#include <cmath>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/attention/threshold_file.h"

namespace thresher {
namespace {

// Columns [first, first + count) of rows of `width`.
std::vector<float> TakeHeads(const std::vector<float>& values, int width, int first, int count) {
  std::vector<float> taken;
  taken.reserve(values.size() / static_cast<std::size_t>(width) * static_cast<std::size_t>(count));
  for (std::size_t row = 0; row < values.size(); row += static_cast<std::size_t>(width)) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row) + first;
    taken.insert(taken.end(), begin, begin + count);
  }
  return taken;
}

std::vector<float> Logarithms(std::span<const std::int32_t> axis) {
  std::vector<float> logs;
  logs.reserve(axis.size());
  for (const std::int32_t value : axis) logs.push_back(std::log(static_cast<float>(value)));
  return logs;
}

absl::Status CheckLayer(int layer, int num_layers) {
  if (layer >= 0 && layer < num_layers) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("threshold table: no layer ", layer, " among ", num_layers));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ThresholdTable>> ThresholdTable::Load(const std::string& path,
                                                                     const ModelFingerprint& model,
                                                                     int num_ranks) {
  absl::StatusOr<ThresholdContents> contents = ReadThresholdFile(path);
  if (!contents.ok()) return contents.status();
  if (absl::Status status = CheckFingerprint(contents->fingerprint, model); !status.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": ", std::string(status.message()),
                     "; make a table for this model with `thresher calibrate`"));
  }
  return Create(*std::move(contents), num_ranks);
}

absl::StatusOr<std::unique_ptr<ThresholdTable>> ThresholdTable::Create(ThresholdContents contents,
                                                                       int num_ranks) {
  if (absl::Status status = contents.Validate(); !status.ok()) return status;
  if (num_ranks < 1 || contents.num_heads % num_ranks != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "threshold table: ", contents.num_heads, " heads do not divide by ", num_ranks, " ranks"));
  }
  return std::unique_ptr<ThresholdTable>(new ThresholdTable(std::move(contents), num_ranks));
}

ThresholdTable::ThresholdTable(ThresholdContents contents, int num_ranks)
    : contents_(std::move(contents)),
      log_k_(Logarithms(contents_.k)),
      log_n_(Logarithms(contents_.n)),
      ranks_(static_cast<std::size_t>(num_ranks)) {
  const int width = contents_.num_heads, count = width / num_ranks;
  for (std::size_t p = 0; p < contents_.placements.size(); ++p) {
    PlacementThresholds& all = contents_.placements[p];
    for (int rank = 0; rank < num_ranks; ++rank) {
      PlacementThresholds& own = ranks_[static_cast<std::size_t>(rank)].placements[p];
      own.theta = TakeHeads(all.theta, width, rank * count, count);
      own.slope = TakeHeads(all.slope, width, rank * count, count);
      own.dropped = TakeHeads(all.dropped, width, rank * count, count);
    }
    all.theta = {};
    all.slope = {};
    all.dropped = {};
  }
}

bool ThresholdTable::has_placement(ThresholdPlacement placement) const {
  return !ranks_[0].placements[static_cast<std::size_t>(placement)].theta.empty();
}

absl::StatusOr<ThresholdGrid> ThresholdTable::GridOf(int layer, ThresholdPlacement placement,
                                                     int first_head, int num_heads) const {
  if (absl::Status status = CheckLayer(layer, contents_.num_layers); !status.ok()) return status;
  const int share = contents_.num_heads / static_cast<int>(ranks_.size());
  if (num_heads != share || first_head % share != 0 || first_head < 0 ||
      first_head >= contents_.num_heads) {
    return absl::InvalidArgumentError(
        absl::StrCat("threshold table: heads ", first_head, " … ", first_head + num_heads - 1,
                     " are not one of ", ranks_.size(), " ranks' share of ", contents_.num_heads));
  }
  if (!has_placement(placement)) {
    return absl::FailedPreconditionError(
        "threshold table: this placement was not calibrated; calibrate again");
  }
  const PlacementThresholds& own = ranks_[static_cast<std::size_t>(first_head / share)]
                                       .placements[static_cast<std::size_t>(placement)];
  const std::size_t per_layer = log_k_.size() * static_cast<std::size_t>(share);
  const std::size_t index = static_cast<std::size_t>(layer);
  return ThresholdGrid{.log_k = log_k_,
                       .log_n = log_n_,
                       .theta = own.theta.data() + index * per_layer * log_n_.size(),
                       .slope = own.slope.data() + index * per_layer,
                       .dropped = own.dropped.empty()
                                      ? nullptr
                                      : own.dropped.data() + index * per_layer * log_n_.size(),
                       .num_heads = share,
                       .lookup = contents_.lookup};
}

absl::StatusOr<ValueStatistics> ThresholdTable::ValuesOf(int layer, int first_kv_head,
                                                         int num_kv_heads, int head_dim) const {
  if (absl::Status status = CheckLayer(layer, contents_.num_layers); !status.ok()) return status;
  if (first_kv_head < 0 || num_kv_heads < 1 ||
      num_kv_heads > contents_.num_kv_heads - first_kv_head) {
    return absl::InvalidArgumentError(absl::StrCat("threshold table: no ", num_kv_heads,
                                                   " KV heads from ", first_kv_head, " on among ",
                                                   contents_.num_kv_heads));
  }
  if (head_dim != contents_.head_dim) {
    return absl::InvalidArgumentError(absl::StrCat("threshold table: its head_dim is ",
                                                   contents_.head_dim, ", the model's ", head_dim));
  }
  if (!has_values()) {
    return absl::FailedPreconditionError(
        "threshold table: it has no statistics of values; calibrate again");
  }
  const auto head = static_cast<std::size_t>(layer * contents_.num_kv_heads + first_kv_head);
  const ValueMoments& values = contents_.values;
  return ValueStatistics{
      .mean = &values.mean[head],
      .std = &values.std[head],
      .mean_value = &values.mean_value[head * static_cast<std::size_t>(contents_.head_dim)],
      .centred_mean = &values.centred_mean[head],
      .centred_std = &values.centred_std[head]};
}

}  // namespace thresher
