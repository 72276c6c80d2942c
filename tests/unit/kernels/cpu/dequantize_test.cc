#include "kernels/cpu/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/cpu/half_float.h"
#include "tests/support/golden_path.h"

namespace thresher {
namespace {

struct GoldenBlocks {
  std::string format;
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

// See tests/golden/scripts/make_dequantize_golden.py.
std::vector<GoldenBlocks> ReadGolden() {
  std::ifstream file(testing::GoldenPath("dequantize/blocks.txt"));
  std::vector<GoldenBlocks> all;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string key, word;
    words >> key >> word;
    if (key == "format") {
      all.push_back({.format = word, .bytes = {}, .values = {}});
    } else if (key == "bytes") {
      for (std::size_t i = 0; i < word.size(); i += 2) {
        all.back().bytes.push_back(
            static_cast<std::byte>(std::stoi(word.substr(i, 2), nullptr, 16)));
      }
    } else {
      do {
        all.back().values.push_back(
            std::bit_cast<float>(static_cast<std::uint32_t>(std::stoul(word, nullptr, 16))));
      } while (words >> word);
    }
  }
  return all;
}

WeightFormat FormatNamed(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(WeightFormat::kQ6_K); ++i) {
    if (Name(static_cast<WeightFormat>(i)) == name) return static_cast<WeightFormat>(i);
  }
  ADD_FAILURE() << "no format " << name;
  return WeightFormat::kF32;
}

TEST(DequantizeTest, EqualsGgufForEveryFormat) {
  const std::vector<GoldenBlocks> golden = ReadGolden();
  ASSERT_EQ(golden.size(), 11u);
  for (const GoldenBlocks& blocks : golden) {
    const auto count = static_cast<std::int64_t>(blocks.values.size());
    std::vector<float> values(blocks.values.size());
    DequantizeRow(FormatNamed(blocks.format), blocks.bytes.data(), 0, count, values.data());
    // As numbers: the sign of a zero may differ.
    EXPECT_EQ(values, blocks.values) << blocks.format;
  }
}

TEST(DequantizeTest, ReadsAnyRangeOfColumns) {
  for (const GoldenBlocks& blocks : ReadGolden()) {
    const auto count = static_cast<std::int64_t>(blocks.values.size());
    for (std::int64_t first = 0; first < count; first += 7) {
      const std::int64_t cols = std::min<std::int64_t>(count - first, 45);
      std::vector<float> values(static_cast<std::size_t>(cols));
      DequantizeRow(FormatNamed(blocks.format), blocks.bytes.data(), first, cols, values.data());
      const std::vector<float> wanted(blocks.values.begin() + first,
                                      blocks.values.begin() + first + cols);
      EXPECT_EQ(values, wanted) << blocks.format << " from " << first;
    }
  }
}

TEST(DequantizeTest, GroupsRebuildTheValues) {
  for (const GoldenBlocks& blocks : ReadGolden()) {
    const WeightFormat format = FormatNamed(blocks.format);
    const GroupLayout layout = GroupsOf(format);
    if (layout.size == 0) continue;
    const std::size_t count = blocks.values.size(), size = static_cast<std::size_t>(layout.size);
    std::vector<std::int8_t> integers(count);
    std::vector<float> scales(count / size), minima(count / size);
    DecodeGroups(format, blocks.bytes.data(),
                 static_cast<std::int64_t>(count) / BlockElements(format), integers.data(),
                 scales.data(), minima.data());
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_GE(integers[i], layout.lowest);
      EXPECT_LE(integers[i], layout.highest);
      const float product = scales[i / size] * static_cast<float>(integers[i]);
      EXPECT_EQ(product + minima[i / size], blocks.values[i]) << blocks.format << " at " << i;
      if (!layout.has_minimum) {
        EXPECT_EQ(minima[i / size], 0);
      }
      if (layout.half_scales) {
        EXPECT_EQ(F16ToFloat(ExactF16(scales[i / size])), scales[i / size]);
      }
    }
  }
}

TEST(HalfFloatTest, EveryF16SurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    EXPECT_EQ(ExactF16(F16ToFloat(half)), half);
  }
}

TEST(HalfFloatTest, Bf16RoundsToNearestEven) {
  EXPECT_EQ(FloatToBf16(1.0f), 0x3f80);
  EXPECT_EQ(FloatToBf16(1.0f + 0x1p-8f), 0x3f80);             // tie, down to even
  EXPECT_EQ(FloatToBf16(1.0f + 0x3p-8f), 0x3f82);             // tie, up to even
  EXPECT_EQ(FloatToBf16(1.0f + 0x1p-8f + 0x1p-20f), 0x3f81);  // above the tie
  EXPECT_EQ(FloatToBf16(std::bit_cast<float>(0x7f7fffffu)), 0x7f80);
  EXPECT_EQ(FloatToBf16(std::bit_cast<float>(0x7f800001u)), 0x7fc0);  // NaN stays NaN
}

}  // namespace
}  // namespace thresher
