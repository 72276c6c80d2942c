#include "engine/attention/threshold_file.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/attention/content_hash.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"
#include "tests/support/threshold_tables.h"

namespace thresher {
namespace {

using testing::SampleTable;
using testing::TempFolder;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string SampleBytes(const TempFolder& folder) {
  const std::string path = folder.path() + "/sample.thr";
  const absl::Status status = WriteThresholdFile(SampleTable({}), path);
  EXPECT_TRUE(status.ok()) << status;
  return ReadAll(path);
}

// With the checksum made right again, so that only the field itself is wrong.
std::string Sealed(std::string bytes) {
  ContentHash hash;
  hash.Add(std::string_view(bytes).substr(0, bytes.size() - 8));
  const std::uint64_t value = hash.value();
  std::memcpy(bytes.data() + bytes.size() - 8, &value, 8);
  return bytes;
}

std::string WithNumber(std::string bytes, std::size_t offset, std::uint32_t value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
  return Sealed(std::move(bytes));
}

std::string ErrorOf(std::string_view bytes) {
  const absl::Status status = ParseThresholdFile(std::as_bytes(std::span(bytes))).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

void ExpectSame(const ThresholdContents& a, const ThresholdContents& b) {
  EXPECT_EQ(a.fingerprint.fields, b.fingerprint.fields);
  EXPECT_EQ(a.lookup, b.lookup);
  EXPECT_EQ(a.k, b.k);
  EXPECT_EQ(a.n, b.n);
  EXPECT_EQ(a.samples, b.samples);
  for (std::size_t p = 0; p < a.placements.size(); ++p) {
    EXPECT_EQ(a.placements[p].theta, b.placements[p].theta);
    EXPECT_EQ(a.placements[p].slope, b.placements[p].slope);
    EXPECT_EQ(a.placements[p].dropped, b.placements[p].dropped);
    EXPECT_EQ(a.placements[p].gamma, b.placements[p].gamma);
  }
  EXPECT_EQ(a.values.mean, b.values.mean);
  EXPECT_EQ(a.values.std, b.values.std);
  EXPECT_EQ(a.values.centred_mean, b.values.centred_mean);
  EXPECT_EQ(a.values.centred_std, b.values.centred_std);
  EXPECT_EQ(a.values.mean_value, b.values.mean_value);
}

TEST(ThresholdFile, ReadsBackWhatWasWritten) {
  const TempFolder folder;
  ThresholdContents table = SampleTable({});
  for (int variant = 0; variant < 3; ++variant) {
    if (variant == 1) {
      table.placements[0] = {};
      table.lookup = ThresholdLookup::kNearest;
    } else if (variant == 2) {
      table.values = {};
      table.placements[1].dropped.clear();
      table.placements[1].gamma.clear();
    }
    const std::string path = folder.path() + "/t.thr";
    ASSERT_TRUE(WriteThresholdFile(table, path).ok());
    const auto read = ReadThresholdFile(path);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->num_layers, 2);
    EXPECT_EQ(read->num_heads, 4);
    EXPECT_EQ(read->num_kv_heads, 2);
    EXPECT_EQ(read->head_dim, 8);
    ExpectSame(table, *read);
    EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  }
}

TEST(ThresholdFile, NamesTheFieldThatIsDamaged) {
  const TempFolder folder;
  const std::string bytes = SampleBytes(folder);
  const auto expect = [&](const std::string& damaged, const std::string& field) {
    const std::string error = ErrorOf(damaged);
    EXPECT_NE(error.find(field), std::string::npos) << field << " in: " << error;
  };
  expect("", "magic");
  expect("L0_H0:64 0.5 3 32\n", "published text format");
  expect(WithNumber(bytes, 8, 9), "version");
  constexpr std::uint32_t kHuge = 0xffffffff;
  // The flags stand at 12, then the lookup and the sizes.
  expect(WithNumber(bytes, 12, kHuge), "truncated");
  expect(WithNumber(bytes, 12, 0), "checksum");
  expect(WithNumber(bytes, 16, 7), "lookup");
  expect(WithNumber(bytes, 20, kHuge), "layers");
  expect(WithNumber(bytes, 20, 3), "truncated");
  expect(WithNumber(bytes, 20, 0), "");
  expect(WithNumber(bytes, 24, kHuge), "heads");
  expect(WithNumber(bytes, 28, kHuge), "KV heads");
  expect(WithNumber(bytes, 32, kHuge), "head_dim");
  expect(WithNumber(bytes, 36, kHuge), "the number of k");
  expect(WithNumber(bytes, 40, 1u << 17), "truncated");
  expect(WithNumber(bytes, 44, 65), "fingerprint fields");
  expect(WithNumber(bytes, 48, kHuge), "fingerprint name");
  std::string flipped = bytes;
  flipped[bytes.size() / 2] = static_cast<char>(flipped[bytes.size() / 2] ^ 1);
  expect(flipped, "checksum");
  expect(bytes + "x", "checksum");
}

TEST(ThresholdFile, SaysWhichNumberIsWrong) {
  const auto error = [](const std::function<void(ThresholdContents&)>& damage) {
    ThresholdContents table = SampleTable({});
    damage(table);
    const absl::Status status = table.Validate();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    const TempFolder folder;
    EXPECT_EQ(WriteThresholdFile(table, folder.path() + "/t.thr"), status);
    return std::string(status.message());
  };
  using Table = ThresholdContents;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const auto expect = [&](const std::string& field, const std::function<void(Table&)>& damage) {
    const std::string message = error(damage);
    EXPECT_EQ(message.find(field), 0u) << message;
  };
  expect("pre.theta", [](Table& t) { t.placements[0].theta[5] = kNan; });
  expect("centred.theta", [](Table& t) { t.placements[1].theta[5] = -kInf; });
  expect("centred.theta", [](Table& t) { t.placements[1].theta.pop_back(); });
  expect("pre.slope", [](Table& t) { t.placements[0].slope[1] = -0.5f; });
  expect("post.slope", [](Table& t) { t.placements[2].slope[1] = 0.5f; });
  expect("pre.dropped", [](Table& t) { t.placements[0].dropped[1] = -1; });
  expect("pre.gamma", [](Table& t) { t.placements[0].gamma[1] = kInf; });
  expect("values.std", [](Table& t) { t.values.std[0] = -1; });
  expect("values.mean_value", [](Table& t) { t.values.mean_value.clear(); });
  expect("k[1]", [](Table& t) { t.k[1] = t.k[0]; });
  expect("n[0]", [](Table& t) { t.n[0] = 0; });
  expect("samples", [](Table& t) { t.samples[0] = -1; });
  expect("samples", [](Table& t) { t.samples.pop_back(); });
  expect("KV heads", [](Table& t) { t.num_kv_heads = 3; });
  expect("layers", [](Table& t) { t.num_layers = 0; });
  expect("placements", [](Table& t) { t.placements = {}; });
}

// Whatever the bytes are, the answer is a table that is valid or an error; the sanitizers watch.
TEST(ThresholdFile, SurvivesAnyDamage) {
  const TempFolder folder;
  const std::string bytes = SampleBytes(folder);
  for (std::size_t size = 0; size < bytes.size(); size += size < 400 ? 1 : 37) {
    ErrorOf(bytes.substr(0, size));
    if (size > 8) ErrorOf(Sealed(bytes.substr(0, size)));
  }
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = bytes;
    const std::size_t reach = round % 2 == 0 ? 200 : damaged.size();
    for (int flips = 0; flips < 3; ++flips) {
      damaged[random() % reach] = static_cast<char>(random());
    }
    damaged = Sealed(std::move(damaged));
    const auto table = ParseThresholdFile(std::as_bytes(std::span(damaged)));
    if (table.ok()) {
      EXPECT_TRUE(table->Validate().ok());
    }
  }
}

TEST(ThresholdFile, NamesTheFile) {
  const TempFolder folder;
  const std::string path = folder.Write("damaged.thr", "no table");
  const std::string error(ReadThresholdFile(path).status().message());
  EXPECT_EQ(error.find(path + ": magic"), 0u) << error;
  EXPECT_EQ(ReadThresholdFile(folder.path() + "/none").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(ThresholdFile, SaysWhyItCannotWrite) {
  const TempFolder folder;
  const absl::Status status = WriteThresholdFile(SampleTable({}), folder.path() + "/no/t.thr");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(status.message()).find("/no/t.thr"), std::string::npos);
  // A folder cannot be replaced by a file, and nothing may stay behind.
  std::filesystem::create_directory(folder.path() + "/taken");
  EXPECT_FALSE(WriteThresholdFile(SampleTable({}), folder.path() + "/taken").ok());
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/taken.partial"));
}

}  // namespace
}  // namespace thresher
