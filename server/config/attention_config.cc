#include "server/config/attention_config.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

absl::Status UnknownValue(const char* field, int value) {
  return absl::InvalidArgumentError(absl::StrCat(field, " has no value ", value));
}

absl::Status FillTopTheta(const v1::TopThetaConfig& config, TopThetaSettings& settings) {
  switch (config.placement()) {
    case v1::TopThetaConfig::DEFAULT_PLACEMENT:
      break;
    case v1::TopThetaConfig::PRE:
      settings.placement = ThresholdPlacement::kPre;
      break;
    case v1::TopThetaConfig::CENTRED:
      settings.placement = ThresholdPlacement::kCentred;
      break;
    case v1::TopThetaConfig::POST:
      settings.placement = ThresholdPlacement::kPost;
      break;
    default:
      return UnknownValue("top_theta.placement", config.placement());
  }
  switch (config.denominator()) {
    case v1::TopThetaConfig::DEFAULT_DENOMINATOR:
      break;
    case v1::TopThetaConfig::NONE:
      settings.denominator = DroppedDenominator::kNone;
      break;
    case v1::TopThetaConfig::EXACT:
      settings.denominator = DroppedDenominator::kExact;
      break;
    case v1::TopThetaConfig::EXPONENTIAL:
      settings.denominator = DroppedDenominator::kExponential;
      break;
    case v1::TopThetaConfig::CALIBRATED:
      settings.denominator = DroppedDenominator::kCalibrated;
      break;
    default:
      return UnknownValue("top_theta.denominator", config.denominator());
  }
  switch (config.value_mean()) {
    case v1::TopThetaConfig::DEFAULT_VALUE_MEAN:
      break;
    case v1::TopThetaConfig::OFF:
      settings.value_mean = ValueMean::kOff;
      break;
    case v1::TopThetaConfig::ALL:
      settings.value_mean = ValueMean::kAll;
      break;
    case v1::TopThetaConfig::DROPPED:
      settings.value_mean = ValueMean::kDropped;
      break;
    default:
      return UnknownValue("top_theta.value_mean", config.value_mean());
  }
  if (config.has_gamma()) settings.gamma = static_cast<float>(config.gamma());
  if (config.has_promotes()) settings.promotes = config.promotes();
  if (config.has_max_length_factor()) settings.max_length_factor = config.max_length_factor();
  if (config.has_layers()) {
    settings.layers.clear();
    for (const v1::TopThetaConfig::Layer& layer : config.layers().layer()) {
      settings.layers.push_back({.layer = layer.layer(), .k = layer.k()});
    }
  }
  return absl::OkStatus();
}

void FillSchedule(const v1::BlockListConfig& config, BudgetSchedule& schedule) {
  const auto take = [](bool given, int value, int& setting) {
    if (given) setting = value;
  };
  take(config.has_short_rate_per_mille(), config.short_rate_per_mille(),
       schedule.short_rate_per_mille);
  take(config.has_short_bias(), config.short_bias(), schedule.short_bias);
  take(config.has_long_rate_per_mille(), config.long_rate_per_mille(),
       schedule.long_rate_per_mille);
  take(config.has_long_bias(), config.long_bias(), schedule.long_bias);
  take(config.has_dense_below(), config.dense_below(), schedule.dense_below);
  take(config.has_long_from(), config.long_from(), schedule.long_from);
  take(config.has_k0_floor(), config.k0_floor(), schedule.k0_floor);
  take(config.has_row_floor(), config.row_floor(), schedule.row_floor);
  take(config.has_last_dense_blocks(), config.last_dense_blocks(), schedule.last_dense_blocks);
  if (config.has_monotone()) schedule.monotone = config.monotone();
}

absl::Status FillBlockLists(const v1::BlockListConfig& config, BlockListSettings& settings) {
  switch (config.form()) {
    case v1::BlockListConfig::DEFAULT_FORM:
    case v1::BlockListConfig::CODE:
      break;
    case v1::BlockListConfig::PAPER:
      settings.schedule.form = BudgetForm::kPaper;
      break;
    default:
      return UnknownValue("block_lists.form", config.form());
  }
  switch (config.value_term()) {
    case v1::BlockListConfig::DEFAULT_VALUE_TERM:
      break;
    case v1::BlockListConfig::NO_VALUES:
      settings.value_term = ValueTerm::kOff;
      break;
    case v1::BlockListConfig::RAW:
      settings.value_term = ValueTerm::kRaw;
      break;
    case v1::BlockListConfig::CALIBRATED:
      settings.value_term = ValueTerm::kCalibrated;
      break;
    case v1::BlockListConfig::CENTRED:
      settings.value_term = ValueTerm::kCentred;
      break;
    default:
      return UnknownValue("block_lists.value_term", config.value_term());
  }
  switch (config.cache_match()) {
    case v1::BlockListConfig::DEFAULT_MATCH:
      break;
    case v1::BlockListConfig::STRICT:
      settings.cache_match = CacheMatch::kStrict;
      break;
    case v1::BlockListConfig::LOOSE:
      settings.cache_match = CacheMatch::kLoose;
      break;
    case v1::BlockListConfig::DENSE_ONLY:
      settings.cache_match = CacheMatch::kDenseOnly;
      break;
    default:
      return UnknownValue("block_lists.cache_match", config.cache_match());
  }
  FillSchedule(config, settings.schedule);
  if (config.has_sink_blocks()) settings.forced.sink = config.sink_blocks();
  if (config.has_local_blocks()) settings.forced.local = config.local_blocks();
  if (config.has_forced_in_budget()) settings.forced.in_budget = config.forced_in_budget();
  if (config.has_stride()) settings.stride = config.stride();
  if (config.has_shares_group()) settings.shares_group = config.shares_group();
  if (config.has_covered_mass()) {
    settings.covered_mass = static_cast<float>(config.covered_mass());
  }
  if (config.has_streaming_sink_blocks()) settings.streaming.sink = config.streaming_sink_blocks();
  if (config.has_streaming_local_blocks()) {
    settings.streaming.local = config.streaming_local_blocks();
  }
  if (config.has_dense_layers()) {
    settings.dense_layers.assign(config.dense_layers().layer().begin(),
                                 config.dense_layers().layer().end());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FillAttentionSettings(const v1::ServeConfig& config, AttentionSettings& settings) {
  settings.shadow_interval = config.shadow_interval();
  if (absl::Status status = FillTopTheta(config.top_theta(), settings.top_theta); !status.ok()) {
    return status;
  }
  if (absl::Status status = FillBlockLists(config.block_lists(), settings.block_lists);
      !status.ok()) {
    return status;
  }
  return settings.Validate();
}

}  // namespace thresher
