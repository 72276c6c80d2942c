#include "engine/attention/threshold_table.h"

#include <cmath>
#include <string>
#include <utility>

#include "engine/attention/threshold_file.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"
#include "tests/support/threshold_tables.h"

namespace thresher {
namespace {

using testing::SampleTable;
using testing::TempFolder;

std::string TablePath(const TempFolder& folder, const ThresholdContents& contents) {
  const std::string path = folder.path() + "/t.thr";
  const absl::Status status = WriteThresholdFile(contents, path);
  EXPECT_TRUE(status.ok()) << status;
  return path;
}

TEST(ThresholdTable, GivesEachRankItsHeads) {
  const ThresholdContents contents = SampleTable({});
  const auto whole = ThresholdTable::Create(contents, 1);
  const auto halves = ThresholdTable::Create(contents, 2);
  ASSERT_TRUE(whole.ok() && halves.ok());
  for (int layer = 0; layer < 2; ++layer) {
    for (const auto placement :
         {ThresholdPlacement::kPre, ThresholdPlacement::kCentred, ThresholdPlacement::kPost}) {
      const auto all = (*whole)->GridOf(layer, placement, 0, 4);
      ASSERT_TRUE(all.ok()) << all.status();
      for (int head = 0; head < 4; ++head) {
        const auto half = (*halves)->GridOf(layer, placement, head / 2 * 2, 2);
        ASSERT_TRUE(half.ok()) << half.status();
        for (const auto& [k, n] : {std::pair{16, 64}, {40, 200}, {64, 256}, {20, 4000}}) {
          const ThresholdPlace place = PlaceThreshold(*all, k, n);
          EXPECT_EQ(ThresholdAt(*all, place, head), ThresholdAt(*half, place, head % 2));
          if (all->dropped == nullptr) continue;
          EXPECT_EQ(InterpolateGrid(*all, all->dropped, place, head),
                    InterpolateGrid(*half, half->dropped, place, head % 2));
        }
      }
    }
  }
}

TEST(ThresholdTable, PlacesLayersAndHeadsWhereTheFormulaSays) {
  const auto table = ThresholdTable::Create(SampleTable({}), 1);
  ASSERT_TRUE(table.ok());
  const auto grid = (*table)->GridOf(1, ThresholdPlacement::kCentred, 0, 4);
  ASSERT_TRUE(grid.ok());
  // θ = head / 4 + layer + 1 + ln n − ln k, linear in both logarithms, so exact between points.
  const ThresholdPlace place = PlaceThreshold(*grid, 23, 150);
  EXPECT_NEAR(ThresholdAt(*grid, place, 3), 0.75 + 1 + 1 + std::log(150.0 / 23.0), 1e-5);
  const auto values = (*table)->ValuesOf(1, 1, 1, 8);
  ASSERT_TRUE(values.ok());
  EXPECT_FLOAT_EQ(*values->mean, -1 + 0.3f);
  EXPECT_FLOAT_EQ(*values->centred_std, 0.25f + 0.3f);
  EXPECT_FLOAT_EQ(values->mean_value[0], 3 * 8 * 0.5f);
  EXPECT_EQ((*table)->min_k(), 16);
  EXPECT_EQ((*table)->max_length(), 256);
}

TEST(ThresholdTable, RefusesWhatItDoesNotHave) {
  ThresholdContents contents = SampleTable({});
  contents.placements[2] = {};
  contents.values = {};
  const auto table = ThresholdTable::Create(std::move(contents), 2);
  ASSERT_TRUE(table.ok()) << table.status();
  const auto code = [](const auto& result) { return result.status().code(); };
  const ThresholdTable& t = **table;
  EXPECT_EQ(code(t.GridOf(2, ThresholdPlacement::kPre, 0, 2)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(t.GridOf(-1, ThresholdPlacement::kPre, 0, 2)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(t.GridOf(0, ThresholdPlacement::kPre, 1, 2)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(t.GridOf(0, ThresholdPlacement::kPre, 4, 2)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(t.GridOf(0, ThresholdPlacement::kPre, 0, 4)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(t.GridOf(0, ThresholdPlacement::kPost, 0, 2)),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(t.ValuesOf(0, 0, 2, 8)), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(t.ValuesOf(0, 1, 2, 8)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(t.ValuesOf(0, 0, 2, 16)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(ThresholdTable::Create(SampleTable({}), 3)), absl::StatusCode::kInvalidArgument);
}

// Item 22 of the specification's oracle.
TEST(ThresholdTable, Item22RefusesAnotherModelNamingBothValues) {
  const TempFolder folder;
  const ThresholdContents contents = SampleTable({});
  const std::string path = TablePath(folder, contents);
  EXPECT_TRUE(ThresholdTable::Load(path, contents.fingerprint).ok());
  for (std::size_t i = 0; i < contents.fingerprint.fields.size(); ++i) {
    ModelFingerprint other = contents.fingerprint;
    other.fields[i].value = "other-value";
    const absl::Status status = ThresholdTable::Load(path, other).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    const std::string message(status.message());
    for (const std::string& part :
         {path, other.fields[i].name, std::string("other-value"),
          contents.fingerprint.fields[i].value, std::string("thresher calibrate")}) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
    }
  }
  ModelFingerprint more = contents.fingerprint;
  more.fields.push_back({"sliding window", "none"});
  EXPECT_EQ(ThresholdTable::Load(path, more).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace thresher
