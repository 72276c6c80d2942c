// Captured work on a GPU: it reads what was staged last, and refuses what a replay would repeat.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "tests/support/random_weight.h"
#include "tests/support/tested_backends.h"

namespace thresher {
namespace {

class CudaCapture : public testing::Test {
 protected:
  static constexpr int kRows = 30, kCols = 64;

  void SetUp() override {
    if (!MachineRuns({DeviceKind::kCuda, {}})) GTEST_SKIP() << "NOT RUN: this machine has no GPU";
    backend_ = CreateBackend(DeviceKind::kCuda, 0, {}).value();
    stream_ = backend_->device().CreateStream().value();
    table_ = backend_->ops().PackEmbedding(weight_.source()).value();
    ASSERT_TRUE(backend_->ops().Reserve(8).ok());
    out_ = backend_->device().Allocate(2 * kCols * sizeof(float)).value();
  }

  absl::Status Stage(const std::vector<std::int32_t>& ids) {
    return backend_->ops().Stage({.ids = ids, .positions = {}, .slot_mapping = {}, .rows = {}},
                                 *stream_);
  }
  absl::Status Embed(const std::vector<std::int32_t>& ids) {
    return backend_->ops().Embed(*table_, ids, TensorView::Of(out_.get(), DType::kF32, 2, kCols),
                                 *stream_);
  }
  std::vector<float> Out() {
    std::vector<float> out(2 * kCols);
    EXPECT_TRUE(stream_->Synchronize().ok());
    EXPECT_TRUE(
        backend_->device().CopyToHost(out_.get(), out.data(), out.size() * sizeof(float)).ok());
    return out;
  }

  const RandomWeight weight_ = RandomWeight::Make(WeightFormat::kF32, kRows, kCols, 12);
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<PackedWeight> table_;
  DeviceBuffer out_;
};

TEST_F(CudaCapture, AReplayReadsWhatWasStagedLast) {
  const std::vector<std::int32_t> first = {3, 17}, second = {29, 0};
  ASSERT_TRUE(Embed(second).ok());
  const std::vector<float> expected = Out();
  ASSERT_TRUE(Stage(first).ok());
  auto work = backend_->device().Capture(*stream_, [&] { return Embed(first); });
  ASSERT_TRUE(work.ok()) << work.status();
  ASSERT_TRUE((*work)->Launch(*stream_).ok());
  EXPECT_NE(Out(), expected);
  ASSERT_TRUE(Stage(second).ok());
  ASSERT_TRUE((*work)->Launch(*stream_).ok());
  EXPECT_EQ(Out(), expected);
}

TEST_F(CudaCapture, AnUploadInsideIsRefusedAndTheStreamGoesOn) {
  ASSERT_TRUE(Stage({3, 17}).ok());
  const auto work = backend_->device().Capture(*stream_, [&] { return Embed({4, 5}); });
  EXPECT_EQ(work.status().code(), absl::StatusCode::kInternal) << work.status();
  ASSERT_TRUE(Embed({4, 5}).ok());
  EXPECT_EQ(Out().size(), 2u * kCols);
}

}  // namespace
}  // namespace thresher
