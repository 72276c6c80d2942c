// The CUDA plugin by itself. Skips loudly where there is no driver.
#include "kernels/device/device.h"

#include <dlfcn.h>

#include "gtest/gtest.h"
#include "kernels/cuda/plugin.h"

namespace thresher {
namespace {

absl::StatusOr<std::unique_ptr<Device>> Open(int ordinal) {
  void* plugin = dlopen("thresher_cuda.so", RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(plugin, nullptr) << dlerror();
  auto* open = reinterpret_cast<OpenCudaDeviceFunction*>(dlsym(plugin, kOpenCudaDeviceSymbol));
  EXPECT_NE(open, nullptr);
  absl::StatusOr<std::unique_ptr<Device>> device = absl::UnknownError("not called");
  if (open != nullptr) open(ordinal, &device);
  return device;
}

bool HasDriver() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return driver != nullptr;
}

TEST(CudaDevice, SaysWhyThereIsNoDriver) {
  if (HasDriver()) GTEST_SKIP() << "this machine has a CUDA driver";
  EXPECT_EQ(Open(0).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(CudaDevice, RefusesAGpuThatIsNotThere) {
  if (!HasDriver()) GTEST_SKIP() << "NO CUDA DRIVER: not run";
  EXPECT_EQ(Open(1000).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Open(-1).status().code(), absl::StatusCode::kNotFound);
}

TEST(CudaDevice, AllocatesAlignedMemoryAndRefusesTheImpossible) {
  if (!HasDriver()) GTEST_SKIP() << "NO CUDA DRIVER: not run";
  auto device = Open(0);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->kind(), DeviceKind::kCuda);
  auto buffer = (*device)->Allocate(1000);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->get()) % 256, 0u);
  EXPECT_EQ((*device)->Allocate(std::size_t{1} << 50).status().code(),
            absl::StatusCode::kResourceExhausted);
  auto stream = (*device)->CreateStream();
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_TRUE((*stream)->Synchronize().ok());
}

}  // namespace
}  // namespace thresher
