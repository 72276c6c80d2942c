#include "server/metrics/attention_metrics.h"

#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace thresher {
namespace {

bool Has(const std::string& text, const std::string& line) {
  return text.find(line + "\n") != std::string::npos;
}

std::string TextOf(const prometheus::Registry& registry) {
  return prometheus::TextSerializer().Serialize(registry.Collect());
}

const std::vector<AttentionChoice> kLevels = {
    AttentionChoice{},
    {.level = "light", .prefill = {"stem", {}}, .decode = {"top_theta", {{"k", 512}}}}};

TEST(AttentionMetricsTest, ConfiguredLevelsAreThereFromTheStart) {
  prometheus::Registry registry;
  const AttentionMetrics metrics(kLevels, registry);
  const std::string text = TextOf(registry);
  for (const char* line :
       {"thresher_attention_v_rows_total{level=\"off\",policy=\"dense\"} 0",
        "thresher_attention_v_rows_read_total{level=\"light\",policy=\"top_theta\"} 0",
        "thresher_attention_k_rows_read_total{level=\"light\",policy=\"top_theta\"} 0",
        "thresher_attention_kv_bytes_read_total{level=\"light\",policy=\"top_theta\"} 0",
        "thresher_attention_kv_bytes_dense_total{level=\"light\",policy=\"top_theta\"} 0",
        "thresher_attention_blocks_total{level=\"light\",policy=\"stem\"} 0",
        "thresher_attention_blocks_selected_total{level=\"light\",policy=\"stem\"} 0",
        "thresher_attention_dense_fallback_total{level=\"light\",policy=\"stem\",reason=\"short_"
        "prompt\"} 0",
        "thresher_attention_selected_per_target_count{row_length=\"512-2k\"} 0",
        "thresher_attention_dropped_mass_count{row_length=\">8k\"} 0",
        "thresher_attention_output_relative_error_count 0",
        "thresher_attention_shadow_token_mismatch_total 0"}) {
    EXPECT_TRUE(Has(text, line)) << line;
  }
}

TEST(AttentionMetricsTest, StepsAddUp) {
  prometheus::Registry registry;
  AttentionMetrics metrics(kLevels, registry);
  AttentionSeries series[] = {{.level = "custom", .policy = "top_theta", .counts = {}},
                              {.level = "light", .policy = "stem", .counts = {}}};
  series[0].counts.value_rows = 100;
  series[0].counts.value_rows_read = 30;
  series[0].counts.dense_fallbacks[static_cast<std::size_t>(DenseFallback::kShortRow)] = 2;
  series[1].counts.blocks = 50;
  series[1].counts.blocks_selected = 20;
  StepReport report;
  report.attention = series;
  report.fidelity[RowLengthIndex(3000)].ratio_buckets[5] = 4;  // 0.9 to 1
  report.fidelity[RowLengthIndex(3000)].ratio_sum = 3.8;
  report.shadow.output_error_buckets[2] = 3;  // 0.003 to 0.01
  report.shadow.num_tokens = 5;
  report.shadow.num_token_mismatches = 1;
  metrics.OnStep(report);
  metrics.OnStep(report);
  const std::string text = TextOf(registry);
  for (const char* line :
       {"thresher_attention_v_rows_total{level=\"custom\",policy=\"top_theta\"} 200",
        "thresher_attention_v_rows_read_total{level=\"custom\",policy=\"top_theta\"} 60",
        "thresher_attention_dense_fallback_total{level=\"custom\",policy=\"top_theta\",reason="
        "\"short_row\"} 4",
        "thresher_attention_blocks_total{level=\"light\",policy=\"stem\"} 100",
        "thresher_attention_blocks_selected_total{level=\"light\",policy=\"stem\"} 40",
        "thresher_attention_selected_per_target_bucket{row_length=\"2k-8k\",le=\"1\"} 8",
        "thresher_attention_selected_per_target_sum{row_length=\"2k-8k\"} 7.6",
        "thresher_attention_output_relative_error_count 6",
        "thresher_attention_shadow_tokens_total 10",
        "thresher_attention_shadow_token_mismatch_total 2"}) {
    EXPECT_TRUE(Has(text, line)) << line << "\n" << text;
  }
}

}  // namespace
}  // namespace thresher
