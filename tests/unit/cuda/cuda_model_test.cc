// Whole models on a GPU against the logits of transformers: every family, chunked, and in the types
// of serving.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/model/model_files.h"
#include "tests/support/logits_bounds.h"
#include "tests/support/logits_golden.h"
#include "tests/support/model_run.h"
#include "tests/support/tested_backends.h"

namespace thresher {
namespace {

using testing::Largest;
using testing::LargestDifference;

class CudaTinyModel : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!MachineRuns(TestedBackends().front())) GTEST_SKIP() << "NO CUDA DRIVER: not run";
    auto files = ModelFiles::Open(testing::GoldenPath("models/" + GetParam()));
    ASSERT_TRUE(files.ok()) << files.status();
    files_ = *std::move(files);
    golden_ = testing::ReadLogitsGolden(testing::StemOf(GetParam()));
  }

  std::vector<float> Run(testing::ModelRunOptions options) {
    options.device = DeviceKind::kCuda;
    auto logits = testing::RunModel(*files_, golden_.tokens, options);
    EXPECT_TRUE(logits.ok()) << logits.status();
    return logits.ok() ? (*logits)[0] : std::vector<float>();
  }

  std::unique_ptr<ModelFiles> files_;
  testing::LogitsGolden golden_;
};

TEST_P(CudaTinyModel, GivesTheLogitsOfTransformers) {
  const double largest = Largest(golden_.logits);
  const double bound = testing::FloatBound(files_->config(), largest) +
                       testing::RotationBound(golden_.tokens.size(), largest);
  EXPECT_LT(LargestDifference(Run({}), golden_.logits), bound);
  EXPECT_LT(LargestDifference(Run({.chunk = 7}), golden_.logits), bound);
}

TEST_P(CudaTinyModel, StaysNearInTheNarrowTypesOfServing) {
  EXPECT_LT(
      LargestDifference(Run({.full_precision = false, .kv_dtype = DType::kBF16}), golden_.logits),
      testing::Bfloat16Bound(files_->config(), Largest(golden_.logits), DType::kBF16));
}

INSTANTIATE_TEST_SUITE_P(All, CudaTinyModel, ::testing::ValuesIn(testing::TinyModels()),
                         [](const auto& test) { return testing::StemOf(test.param); });

}  // namespace
}  // namespace thresher
