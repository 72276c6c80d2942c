#include "engine/attention/published_thresholds.h"

#include <cmath>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/attention/threshold_table.h"
#include "gtest/gtest.h"

namespace thresher {
namespace {

ModelConfig Config() {
  ModelConfig config;
  config.num_layers = 2;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 8;
  return config;
}

// Layer 0 has k 512, layer 1 k 32; θ = −n / 1000 − layer − head / 4.
double Theta(int layer, int head, int n) { return -n / 1000.0 - layer - head / 4.0; }

std::string Lines(int layer, int head, std::initializer_list<int> lengths) {
  std::string text;
  for (const int n : lengths) {
    absl::StrAppend(&text, "L", layer, "_H", head, ":", n, " ", Theta(layer, head, n), " 7 ",
                    layer == 0 ? 512 : 32, "\n");
  }
  return text;
}

std::string SameLengths() {
  std::string text;
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 2; ++head) text += Lines(layer, head, {600, 610, 700});
  }
  return text;
}

absl::StatusOr<ThresholdContents> Import(const std::string& text,
                                         const std::string& denominators = "",
                                         ThresholdPlacement placement = ThresholdPlacement::kPre) {
  return ImportPublishedThresholds(text, denominators, placement, Config(), {});
}

void ExpectNearest(const ThresholdContents& contents, int layer, int head, int n, double theta) {
  const auto table = ThresholdTable::Create(contents);
  ASSERT_TRUE(table.ok()) << table.status();
  const auto grid = (*table)->GridOf(layer, ThresholdPlacement::kPre, 0, 2);
  ASSERT_TRUE(grid.ok());
  for (const int k : {16, 32, 512, 4096}) {
    EXPECT_FLOAT_EQ(ThresholdAt(*grid, PlaceThreshold(*grid, k, n), head),
                    static_cast<float>(theta))
        << "layer " << layer << " head " << head << " n " << n << " k " << k;
  }
}

// Item 19 of the specification's oracle, second half.
TEST(PublishedThresholds, Item19LooksUpTheNearestLength) {
  const auto contents = Import(SameLengths());
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->n.size(), 3u);
  const std::map<int, int> nearest = {{513, 600}, {600, 600}, {604, 600}, {605, 600}, {606, 610},
                                      {655, 610}, {656, 700}, {700, 700}, {5000, 700}};
  for (const auto& [n, row] : nearest) {
    for (int layer = 0; layer < 2; ++layer) {
      for (int head = 0; head < 2; ++head) {
        ExpectNearest(*contents, layer, head, n, Theta(layer, head, row));
      }
    }
  }
}

TEST(PublishedThresholds, KeepsEachHeadsOwnLengths) {
  const auto contents = Import(Lines(0, 0, {600, 700}) + Lines(0, 1, {620}) + Lines(1, 0, {600}) +
                               Lines(1, 1, {630, 640}));
  ASSERT_TRUE(contents.ok()) << contents.status();
  ExpectNearest(*contents, 0, 0, 650, Theta(0, 0, 600));
  ExpectNearest(*contents, 0, 0, 651, Theta(0, 0, 700));
  ExpectNearest(*contents, 0, 1, 651, Theta(0, 1, 620));
  ExpectNearest(*contents, 1, 1, 635, Theta(1, 1, 630));
  ExpectNearest(*contents, 1, 1, 636, Theta(1, 1, 640));
}

TEST(PublishedThresholds, ReadsProbabilitiesAndDenominators) {
  std::string probabilities, sums;
  for (int layer = 0; layer < 2; ++layer) {
    for (int head = 0; head < 2; ++head) {
      absl::StrAppend(&probabilities, "L", layer, "_H", head, ":600 0.001 7 64\r\n");
      absl::StrAppend(&sums, "L", layer, "_H", head, ":500 ", 1.5 + head, " 7\n");
    }
  }
  const auto contents = Import(probabilities, sums, ThresholdPlacement::kPost);
  ASSERT_TRUE(contents.ok()) << contents.status();
  const PlacementThresholds& post = contents->placements[2];
  EXPECT_FLOAT_EQ(post.theta[0], std::log(0.001f));
  EXPECT_FLOAT_EQ(post.dropped[0], 1.5f);
  EXPECT_FLOAT_EQ(post.dropped[1], 2.5f);
}

TEST(PublishedThresholds, SaysWhatIsWrongWithALine) {
  const std::string good = SameLengths();
  const auto expect = [&](const std::string& from, const std::string& to, const std::string& why) {
    const std::string text = absl::StrReplaceAll(good, {{from, to}});
    const absl::Status status = Import(text).status();
    EXPECT_NE(std::string(status.message()).find(why), std::string::npos) << status;
    return status.code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(expect("L0_H1:610", "L0-H1:610", "line 5: it does not begin"), kInvalid);
  EXPECT_EQ(expect("L0_H1:610", "L0_H9:610", "the model has"), kInvalid);
  EXPECT_EQ(expect("L0_H1:610", "L0_H1:0", "n is 0"), kInvalid);
  EXPECT_EQ(expect("L0_H1:610", "L0_H1:600", "came before"), kInvalid);
  EXPECT_EQ(expect("L0_H1:610", "L0_H1:99999999999", "it does not begin"), kInvalid);
  EXPECT_EQ(expect("-0.86 ", "nan ", "no finite number"), kInvalid);
  EXPECT_EQ(expect("-0.86 7", "-0.86 -7", "num_samples"), kInvalid);
  EXPECT_EQ(expect("-0.86 7 512", "-0.86 7 0", "k is not"), kInvalid);
  EXPECT_EQ(expect("-0.86 7 512", "-0.86 7 64", "has k 512 and 64"), kInvalid);
  EXPECT_EQ(expect("-0.86 7 512", "-0.86 7", "3 fields instead of 4"), kInvalid);
  EXPECT_EQ(expect("L1_H1", "L1_H0", "came before"), kInvalid);
  const absl::Status missing = Import(Lines(0, 0, {600}) + Lines(0, 1, {600})).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(std::string(missing.message()).find("layer 1, head 0"), std::string::npos) << missing;
  EXPECT_EQ(Import("").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Import(good, "", ThresholdPlacement::kPost).status().code(), kInvalid);
  EXPECT_EQ(Import(good, good).status().code(), kInvalid);
}

}  // namespace
}  // namespace thresher
