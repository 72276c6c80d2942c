// The tiny random models of golden/models: read by the loaders, run by the reference decoder,
// compared with the logits that transformers gives.
#include <string>
#include <vector>

#include "engine/model/model_files.h"
#include "gtest/gtest.h"
#include "tests/support/logits_bounds.h"
#include "tests/support/logits_golden.h"
#include "tests/support/reference/reference_decoder.h"

namespace thresher {
namespace {

using testing::GoldenPath;
using testing::LogitsGolden;

class TinyModel : public ::testing::TestWithParam<std::string> {};

TEST_P(TinyModel, ReferenceDecoderGivesTheLogitsOfTransformers) {
  auto files = ModelFiles::Open(GoldenPath("models/" + GetParam()));
  ASSERT_TRUE(files.ok()) << files.status();
  const LogitsGolden golden = testing::ReadLogitsGolden(testing::StemOf(GetParam()));
  auto logits = testing::ReferenceLogits(**files, golden.tokens);
  ASSERT_TRUE(logits.ok()) << logits.status();
  ASSERT_EQ(logits->size(), golden.logits.size());
  const std::vector<float> narrowed(logits->begin(), logits->end());
  const double largest = testing::Largest(golden.logits);
  // Both sides are in double but for the oracle's rotations and the stored floats.
  EXPECT_LT(
      testing::LargestDifference(narrowed, golden.logits),
      testing::RotationBound(golden.tokens.size(), largest) + 2 * testing::kFloatUnit * largest);
}

INSTANTIATE_TEST_SUITE_P(All, TinyModel, ::testing::ValuesIn(testing::TinyModels()),
                         [](const auto& test) { return testing::StemOf(test.param); });

}  // namespace
}  // namespace thresher
