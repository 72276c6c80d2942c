#include "engine/model/rotary_frequencies.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "engine/model/hf_rope_config.h"
#include "gtest/gtest.h"
#include "tests/support/logits_golden.h"

namespace thresher {
namespace {

// The oracle computes theta^x in float: an error of half a unit in x, times ln(theta), and a few
// units of its own.
double Bound(double theta) { return (std::log(theta) / 2 + 4) * std::pow(2.0, -24); }

TEST(RotaryFrequencies, AreThoseOfTransformersForEveryScaling) {
  std::ifstream file(testing::GoldenPath("rope_frequencies.txt"));
  std::string config_text, served_text, numbers;
  int cases = 0;
  while (std::getline(file, config_text) && std::getline(file, served_text) &&
         std::getline(file, numbers)) {
    const nlohmann::json config = nlohmann::json::parse(config_text);
    auto rope = RopeConfigFromHuggingFace(config, 16, 4096);
    ASSERT_TRUE(rope.ok()) << config_text << rope.status();
    const RotaryFrequencies got = ComputeRotaryFrequencies(*rope, std::stoi(served_text));
    std::istringstream expected(numbers);
    double number = 0;
    expected >> number;
    EXPECT_NEAR(got.attention_factor, number, 1e-8 * number) << config_text;
    ASSERT_EQ(got.radians_per_position.size(), 8u);
    for (const double frequency : got.radians_per_position) {
      expected >> number;
      EXPECT_NEAR(frequency, number, Bound(rope->theta) * number) << config_text;
    }
    EXPECT_TRUE(expected.good() || expected.eof());
    ++cases;
  }
  EXPECT_GE(cases, 14);
}

TEST(RotaryFrequencies, FileFactorsDivideThem) {
  RopeConfig rope;
  rope.rotary_dim = 8;
  const RotaryFrequencies plain = ComputeRotaryFrequencies(rope, 100);
  rope.frequency_factors = {1, 2, 4, 8};
  const RotaryFrequencies divided = ComputeRotaryFrequencies(rope, 100);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(divided.radians_per_position[i] * rope.frequency_factors[i],
                     plain.radians_per_position[i]);
  }
}

TEST(RotaryFrequencies, TableHoldsCosinesThenSinesTimesTheFactor) {
  const RotaryFrequencies frequencies{.radians_per_position = {1.0, 0.01}, .attention_factor = 1.5};
  std::vector<float> table(3 * 4);
  FillRotaryTable(frequencies, 3, table);
  for (int position = 0; position < 3; ++position) {
    for (int pair = 0; pair < 2; ++pair) {
      const double angle = position * (pair == 0 ? 1.0 : 0.01);
      EXPECT_FLOAT_EQ(table[static_cast<std::size_t>(position * 4 + pair)],
                      static_cast<float>(1.5 * std::cos(angle)));
      EXPECT_FLOAT_EQ(table[static_cast<std::size_t>(position * 4 + 2 + pair)],
                      static_cast<float>(1.5 * std::sin(angle)));
    }
  }
}

}  // namespace
}  // namespace thresher
