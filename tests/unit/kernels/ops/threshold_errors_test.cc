// What the kernels of mechanism `above threshold` refuse, each with the name of what is wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "tests/support/cpu_backends.h"
#include "tests/support/reference/threshold_reference.h"

namespace thresher {
namespace {

class ThresholdErrorsTest : public testing::Test {
 protected:
  ThresholdErrorsTest() {
    selection_.grid = flat_.grid();
    selection_.targets = targets_;
    layer_.q = TensorView::Of(q_.data(), DType::kF32, 1, 2, 8);
    layer_.out = TensorView::Of(out_.data(), DType::kF32, 1, 2, 8);
    layer_.cache = attention_.Cache();
    layer_.scale = 1;
  }

  std::string Message(const KvSelection& selection, const AttentionLayer& layer) {
    AttentionPlan plan;
    DeviceBuffer workspace =
        backend_->device().Allocate(kernel_.WorkspaceBytes(attention_.Batch())).value();
    EXPECT_TRUE(kernel_.Plan(attention_.Batch(), workspace, *stream_, plan).ok());
    const absl::Status status = kernel_.Run(plan, layer, selection, *stream_);
    EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }
  std::string MessageAfter(const std::function<void(SelectAboveThreshold&)>& spoil) {
    SelectAboveThreshold selection = selection_;
    spoil(selection);
    return Message(selection, layer_);
  }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend({CpuIsa::kAvx2, false});
  std::unique_ptr<Stream> stream_ = backend_->device().CreateStream().value();
  const AttentionKernel& kernel_ = *backend_->kernels().Find(
      {AttentionMechanism::kAboveThreshold, AttentionPhase::kDecode, DType::kBF16, 8});
  PagedAttentionCase attention_{{.num_heads = 2, .num_kv_heads = 1, .head_dim = 8}, {{17, 1, 1}}};
  std::vector<float> q_ = std::vector<float>(16), out_ = q_;
  FlatThresholds flat_{{0, 0}, {1, 1}};
  std::vector<std::int32_t> targets_ = {4};
  SelectAboveThreshold selection_;
  AttentionLayer layer_;
};

TEST_F(ThresholdErrorsTest, SelectionsThatDoNotFitAreNamed) {
  EXPECT_EQ(Message(selection_, layer_), "");
  EXPECT_EQ(Message(SelectAll{}, layer_), "");
  EXPECT_EQ(Message(SelectBlocks{}, layer_),
            "attention: the kernel of mechanism `above threshold` carries out SelectAboveThreshold "
            "and SelectAll alone");
  EXPECT_EQ(MessageAfter([](SelectAboveThreshold& s) { s.targets = {}; }),
            "attention: targets.size is 0, expected 1");
  targets_[0] = -1;
  EXPECT_EQ(Message(selection_, layer_), "attention: targets is -1, expected 0 to 2147483647");
}

TEST_F(ThresholdErrorsTest, GridsThatDoNotFitAreNamed) {
  EXPECT_EQ(MessageAfter([](SelectAboveThreshold& s) { s.grid.num_heads = 3; }),
            "attention: grid.num_heads is 3, expected 2");
  EXPECT_EQ(MessageAfter([](SelectAboveThreshold& s) { s.grid.log_k = {}; }),
            "attention: grid.log_k.size is 0, expected 1 to 1048576");
  EXPECT_EQ(MessageAfter([](SelectAboveThreshold& s) { s.grid.log_n = {}; }),
            "attention: grid.log_n.size is 0, expected 1 to 1048576");
  EXPECT_EQ(MessageAfter([](SelectAboveThreshold& s) { s.grid.theta = nullptr; }),
            "attention: grid.theta has no data");
  EXPECT_EQ(MessageAfter([](SelectAboveThreshold& s) { s.grid.slope = nullptr; }),
            "attention: grid.slope has no data");
  EXPECT_EQ(MessageAfter([](SelectAboveThreshold& s) {
              s.grid.slope = nullptr;
              s.grid.lookup = ThresholdLookup::kNearest;
            }),
            "");
  EXPECT_EQ(MessageAfter([](SelectAboveThreshold& s) {
              s.denominator = DroppedDenominator::kCalibrated;
              s.promotes = false;
              s.grid.dropped = nullptr;
            }),
            "attention: grid.dropped has no data, which the calibrated denominator needs");
}

TEST_F(ThresholdErrorsTest, FormsThatDoNotGoTogetherAreNamed) {
  for (const auto denominator :
       {DroppedDenominator::kExponential, DroppedDenominator::kCalibrated}) {
    EXPECT_EQ(MessageAfter([&](SelectAboveThreshold& s) { s.denominator = denominator; }),
              "attention: an exponential or calibrated denominator does not go with promotes");
  }
  for (const float gamma : {-1.0f, NAN, INFINITY}) {
    EXPECT_EQ(MessageAfter([&](SelectAboveThreshold& s) { s.gamma = gamma; }),
              "attention: gamma is negative or not finite");
  }
}

TEST_F(ThresholdErrorsTest, SumsAreNeededOnlyByTheFormsThatReadThem) {
  AttentionLayer layer = layer_;
  layer.cache.k_sums = {};
  EXPECT_EQ(Message(selection_, layer), "attention: cache.k_sums is f32[], expected f32[3, 1, 8]");
  selection_.placement = ThresholdPlacement::kPre;
  EXPECT_EQ(Message(selection_, layer), "");
  layer.cache.v_sums.shape[0] = 2;
  EXPECT_EQ(Message(selection_, layer),
            "attention: cache.v_sums is f32[2, 1, 8], expected f32[3, 1, 8]");
  selection_.value_mean = ValueMean::kOff;
  EXPECT_EQ(Message(selection_, layer), "");
}

}  // namespace
}  // namespace thresher
