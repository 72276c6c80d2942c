#include <nlohmann/json.hpp>

#include "engine/attention/evaluate/evaluation_report.h"

namespace thresher {
namespace {

using Json = nlohmann::ordered_json;

Json IntervalJson(const Interval& interval) {
  return {{"mean", interval.mean}, {"lower95", interval.lower}, {"upper95", interval.upper}};
}

Json PolicyJson(const PolicyChoice& choice) {
  Json json = {{"policy", choice.policy}};
  for (const auto& [name, value] : choice.parameters) json[name] = value;
  return json;
}

Json TasksJson(const std::vector<std::pair<std::string, double>>& tasks) {
  Json json = Json::object();
  for (const auto& [name, score] : tasks) json[name] = score;
  return json;
}

Json ListsJson(const std::optional<BlockListReading>& lists) {
  if (!lists.has_value()) return {};
  return {{"lists", lists->num_lists},
          {"kendall_tau", lists->kendall_tau.has_value() ? Json(*lists->kendall_tau) : Json()},
          {"removal_recall", lists->removal_recall},
          {"mass_recall", lists->mass_recall},
          {"output_error", lists->output_error}};
}

Json ChoiceJson(const ChoiceReading& reading) {
  Json buckets = Json::array();
  for (const LengthBucketReading& bucket : reading.buckets) {
    buckets.push_back({{"row_length", bucket.label},
                       {"tokens", bucket.num_tokens},
                       {"kl", bucket.kl},
                       {"top_agreement", bucket.top_agreement},
                       {"perplexity_increase", bucket.perplexity_increase},
                       {"selected_per_target", bucket.selected_per_target},
                       {"dropped_mass", bucket.dropped_mass},
                       {"v_row_share", bucket.value_row_share}});
  }
  return {{"name", reading.name},
          {"prefill", PolicyJson(reading.choice.prefill)},
          {"decode", PolicyJson(reading.choice.decode)},
          {"perplexity", reading.perplexity},
          {"perplexity_increase", IntervalJson(reading.perplexity_increase)},
          {"kl", IntervalJson(reading.kl)},
          {"top_agreement", IntervalJson(reading.top_agreement)},
          {"v_row_share", reading.value_row_share},
          {"v_row_share_at_end", reading.value_row_share_at_end},
          {"v_row_share_of_heads", reading.value_row_share_of_heads},
          {"block_density", reading.block_density},
          {"output_error", reading.output_error},
          {"heads_within_half_and_double",
           reading.heads_within_target.has_value() ? Json(*reading.heads_within_target) : Json()},
          {"block_lists", ListsJson(reading.lists)},
          {"buckets", buckets},
          {"tasks", TasksJson(reading.tasks)}};
}

}  // namespace

std::string ReportAsJson(const EvaluationReport& report) {
  Json choices = Json::array();
  for (const ChoiceReading& reading : report.choices) choices.push_back(ChoiceJson(reading));
  const Json json = {
      {"model", report.model},
      {"command", report.command},
      {"texts", report.texts},
      {"prompt_tokens", report.prompt_tokens},
      {"window_tokens", report.window_tokens},
      {"windows", report.num_windows},
      {"first_position", report.first_position},
      {"tokens", report.num_tokens},
      {"dense",
       {{"perplexity", report.dense_perplexity}, {"tasks", TasksJson(report.dense_tasks)}}},
      {"choices", choices}};
  // Names of files may be any bytes.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace thresher
