// The CUDA backend as a whole: how it opens, what it refuses. Skips loudly where there is no
// driver.
#include <dlfcn.h>

#include <cstring>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/backend.h"

namespace thresher {
namespace {

absl::StatusOr<std::unique_ptr<Backend>> Open(int ordinal) {
  return CreateBackend(DeviceKind::kCuda, ordinal, {});
}

bool HasDriver() { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != nullptr; }

TEST(CudaBackend, SaysWhyThereIsNoDriver) {
  if (HasDriver()) GTEST_SKIP() << "this machine has a CUDA driver";
  const absl::Status status = Open(0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("no usable CUDA driver"), std::string::npos) << status;
}

TEST(CudaBackend, RefusesAGpuThatIsNotThere) {
  if (!HasDriver()) GTEST_SKIP() << "NO CUDA DRIVER: not run";
  EXPECT_EQ(Open(1000).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Open(-1).status().code(), absl::StatusCode::kNotFound);
}

TEST(CudaBackend, AllocatesAlignedMemoryAndRefusesTheImpossible) {
  if (!HasDriver()) GTEST_SKIP() << "NO CUDA DRIVER: not run";
  const std::unique_ptr<Backend> backend = Open(0).value();
  Device& device = backend->device();
  EXPECT_EQ(device.kind(), DeviceKind::kCuda);
  auto buffer = device.Allocate(1000);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->get()) % 256, 0u);
  EXPECT_EQ(device.Allocate(std::size_t{1} << 50).status().code(),
            absl::StatusCode::kResourceExhausted);
  // A refusal leaves the device as it was.
  auto stream = device.CreateStream();
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_TRUE((*stream)->Synchronize().ok());
}

TEST(CudaBackend, CopiesThereAndBack) {
  if (!HasDriver()) GTEST_SKIP() << "NO CUDA DRIVER: not run";
  const std::unique_ptr<Backend> backend = Open(0).value();
  std::vector<float> values(100001), back(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const std::size_t bytes = values.size() * sizeof(float);
  const DeviceBuffer buffer = backend->device().Allocate(bytes).value();
  ASSERT_TRUE(backend->device().CopyToDevice(values.data(), buffer.get(), bytes).ok());
  ASSERT_TRUE(backend->device().CopyToHost(buffer.get(), back.data(), bytes).ok());
  EXPECT_EQ(back, values);
}

TEST(CudaBackend, RefusesWhatHasNoTwinByName) {
  if (!HasDriver()) GTEST_SKIP() << "NO CUDA DRIVER: not run";
  const std::unique_ptr<Backend> backend = Open(0).value();
  const std::unique_ptr<Stream> stream = backend->device().CreateStream().value();
  for (const AttentionMechanism mechanism :
       {AttentionMechanism::kAboveThreshold, AttentionMechanism::kBlocks}) {
    EXPECT_FALSE(CarriesOut(DeviceKind::kCuda, mechanism));
    EXPECT_EQ(backend->kernels().Find({.mechanism = mechanism, .head_dim = 64}), nullptr);
  }
  DeviceBuffer workspace;
  BlockSelection selection;
  const absl::Status blocks =
      backend->block_selector().Run({}, {}, 0, {}, {}, {}, workspace, *stream, selection);
  EXPECT_EQ(blocks.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(blocks.message().find("block selector"), std::string::npos);
  const absl::Status scores = backend->score_observer().Observe({}, {}, {}, *stream);
  EXPECT_EQ(scores.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(scores.message().find("score observer"), std::string::npos);
}

}  // namespace
}  // namespace thresher
