// An evaluation of the real model on a short text: what must be zero is, and what is read is told.
#include "engine/attention/evaluate/evaluate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/attention/model_fingerprint.h"
#include "engine/attention/threshold_file.h"
#include "tests/support/real_model_fixture.h"
#include "tests/support/temp_folder.h"
#include "tests/support/threshold_tables.h"

namespace thresher {
namespace {

std::string Text(int num_sentences) {
  std::string text;
  for (int i = 0; i < num_sentences; ++i) {
    text += "Traveller " + std::to_string(i * 7) + " reached the harbour before the rain came. ";
  }
  return text;
}

// Keeps the keys whose score is above the row's mean, whatever k.
ThresholdContents AboveTheMean(const std::string& model) {
  const std::unique_ptr<ModelFiles> files = ModelFiles::Open(model).value();
  const ModelConfig& config = files->config();
  ThresholdContents table = testing::SampleTable({.num_layers = config.num_layers,
                                                  .num_heads = config.num_heads,
                                                  .num_kv_heads = config.num_kv_heads,
                                                  .head_dim = config.head_dim});
  for (PlacementThresholds& placement : table.placements) {
    std::fill(placement.theta.begin(), placement.theta.end(), 0.0f);
  }
  table.fingerprint = FingerprintOf(*files, config, DType::kBF16).value();
  return table;
}

class EvaluateTest : public testing::RealModelFixture {
 protected:
  void SetUp() override {
    RealModelFixture::SetUp();
    options_.model_path = model_path_;
    options_.backend.max_isa = testing::TestMaxIsa();
    options_.texts = {{"travel", Text(40)}};
    options_.prompt_tokens = 96;
    options_.window_tokens = 256;
    options_.first_position = 64;
    options_.shadow_interval = 1;
  }

  EvaluateOptions options_;
};

TEST_F(EvaluateTest, DenseIsItselfAndThresholdsReadLess) {
  const testing::TempFolder folder;
  options_.threshold_table = folder.path() + "/table";
  ASSERT_TRUE(WriteThresholdFile(AboveTheMean(options_.model_path), options_.threshold_table).ok());
  AttentionChoice sparse;
  sparse.decode = {"top_theta", {{"k", 16}}};
  AttentionSettings centred;
  centred.top_theta.placement = ThresholdPlacement::kCentred;
  options_.choices = {{"dense", {}, {}}, {"sparse", sparse, centred}};
  const absl::StatusOr<EvaluationReport> report = Evaluate(options_, {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->num_tokens, 192);
  EXPECT_GT(report->dense_perplexity, 1);
  ASSERT_EQ(report->choices.size(), 2u);
  const ChoiceReading& dense = report->choices[0];
  EXPECT_EQ(dense.kl.upper, 0);
  EXPECT_EQ(dense.perplexity_increase.upper, 0);
  EXPECT_EQ(dense.top_agreement.lower, 1);
  EXPECT_EQ(dense.value_row_share, 1);
  EXPECT_EQ(dense.perplexity, report->dense_perplexity);
  const ChoiceReading& thresholded = report->choices[1];
  EXPECT_GT(thresholded.kl.mean, 0);
  EXPECT_GE(thresholded.kl.upper, thresholded.kl.lower);
  EXPECT_GT(thresholded.value_row_share, 0.05);
  EXPECT_LT(thresholded.value_row_share, 1);
  EXPECT_GT(thresholded.value_row_share_of_heads, 0.05);
  EXPECT_LE(thresholded.value_row_share_of_heads, thresholded.value_row_share);
  EXPECT_EQ(dense.value_row_share_of_heads, 1);
  EXPECT_GT(thresholded.output_error, 0);
  EXPECT_LT(thresholded.output_error, 1);
  const LengthBucketReading& shortest = thresholded.buckets[0];
  EXPECT_EQ(shortest.num_tokens, 192);
  EXPECT_GT(shortest.selected_per_target, 0);
  EXPECT_GT(shortest.dropped_mass, 0);
  EXPECT_LT(shortest.dropped_mass, 1);
  EXPECT_EQ(thresholded.buckets[2].num_tokens, 0);
  EXPECT_EQ(CheapestWithin(*report, 1e9), 1);
  EXPECT_EQ(CheapestWithin(*report, 0), 0);
  EXPECT_EQ(CheapestWithin(*report, -1), -1);

  const std::string json = ReportAsJson(*report), html = ReportAsHtml(*report);
  EXPECT_NE(json.find("\"name\": \"sparse\""), std::string::npos);
  EXPECT_NE(html.find("<svg"), std::string::npos);
  EXPECT_EQ(html.find("nan"), std::string::npos);
}

TEST_F(EvaluateTest, BestKeysKeepExactlyKAndPagesAtMost) {
  AttentionChoice top_k, quest;
  top_k.decode = {"top_k", {{"k", 32}}};
  quest.decode = {"quest", {{"k", 32}}};
  options_.choices = {{"top_k", top_k, {}}, {"quest", quest, {}}};
  const absl::StatusOr<EvaluationReport> report = Evaluate(options_, {});
  ASSERT_TRUE(report.ok()) << report.status();
  const ChoiceReading& exact = report->choices[0];
  const ChoiceReading& pages = report->choices[1];
  EXPECT_DOUBLE_EQ(exact.buckets[0].selected_per_target, 1);
  EXPECT_EQ(exact.heads_within_target, 1);
  // The last page may be incomplete.
  EXPECT_LE(pages.buckets[0].selected_per_target, 1);
  EXPECT_GT(pages.buckets[0].selected_per_target, 0.5);
  // A head reads its own keys, pages are read by all heads of a group.
  EXPECT_LT(pages.value_row_share, exact.value_row_share);
  EXPECT_LT(exact.value_row_share, 1);
  // The exact choice leaves out the least mass that k keys of a head can.
  EXPECT_GT(exact.buckets[0].dropped_mass, 0);
  EXPECT_GT(pages.buckets[0].dropped_mass, exact.buckets[0].dropped_mass);
  EXPECT_GT(exact.kl.mean, 0);
  EXPECT_FALSE(exact.lists.has_value());
}

TEST_F(EvaluateTest, ListsAreJudgedByWhatTheyLeaveOut) {
  AttentionChoice oracle, random, streaming;
  oracle.prefill = {"oracle", {{"mu", 1}}};
  random.prefill = {"random", {{"mu", 1}}};
  streaming.prefill = {"streaming", {}};
  // Rows of the third block and the fourth read their own block and one more.
  AttentionSettings settings;
  settings.block_lists.schedule.dense_below = 1;
  settings.block_lists.schedule.short_rate_per_mille = 0;
  settings.block_lists.schedule.short_bias = 2;
  settings.block_lists.forced = {.sink = 0, .local = 1, .in_budget = true};
  settings.block_lists.streaming = {.sink = 1, .local = 1, .in_budget = false};
  options_.texts[0].text = Text(60);
  options_.window_tokens = options_.prompt_tokens = 512;
  options_.choices = {
      {"oracle", oracle, settings}, {"random", random, settings}, {"stream", streaming, settings}};
  const absl::StatusOr<EvaluationReport> report = Evaluate(options_, {});
  ASSERT_TRUE(report.ok()) << report.status();
  // Blocks 2 and 3, seven layers, all heads.
  for (const ChoiceReading& reading : report->choices) {
    ASSERT_TRUE(reading.lists.has_value());
    EXPECT_EQ(reading.lists->num_lists, 2 * 7 * 9) << reading.name;
  }
  const BlockListReading& best = *report->choices[0].lists;
  const BlockListReading& chance = *report->choices[1].lists;
  ASSERT_TRUE(best.kendall_tau.has_value() && chance.kendall_tau.has_value());
  EXPECT_GT(*best.kendall_tau, 0.5);
  EXPECT_LT(std::abs(*chance.kendall_tau), 0.3);
  EXPECT_GT(best.removal_recall, chance.removal_recall);
  EXPECT_GT(best.mass_recall, chance.mass_recall);
  EXPECT_LT(best.mass_recall, 1);
  EXPECT_LT(best.output_error, chance.output_error);
  EXPECT_GT(best.output_error, 0);
  EXPECT_FALSE(report->choices[2].lists->kendall_tau.has_value());
  const std::string json = ReportAsJson(*report), html = ReportAsHtml(*report);
  EXPECT_NE(json.find("\"kendall_tau\": null"), std::string::npos);
  EXPECT_NE(html.find("How blocks were chosen"), std::string::npos);
}

TEST_F(EvaluateTest, ErrorsNameTheTextOrTheChoice) {
  options_.choices = {{"mine", {}, {}}};
  options_.choices[0].choice.decode = {"top_theta", {{"k", 64}}};
  const auto message = [&] { return std::string(Evaluate(options_, {}).status().message()); };
  EXPECT_EQ(message().substr(0, 6), "mine: ") << message();
  options_.texts = {{"short", "Only a few words."}};
  EXPECT_EQ(message().substr(0, 7), "short: ") << message();
  options_.window_tokens = 1 << 20;
  EXPECT_EQ(message(), "window_tokens is 1048576; the model's context is 8192");
  options_.window_tokens = 256;
  options_.first_position = 256;
  EXPECT_EQ(message(), "first_position is 256; it must be below the window's 256 tokens");
  options_.choices.clear();
  EXPECT_EQ(message(), "choices is empty; give at least one");
}

}  // namespace
}  // namespace thresher
