#include "kernels/backend.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "kernels/cpu/parallel.h"
#include "tests/support/cpu_backends.h"

namespace thresher {
namespace {

TEST(BackendTest, CpuDescribesItself) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend({CpuIsa::kAvx2, false}, 3);
  EXPECT_EQ(backend->device().kind(), DeviceKind::kCpu);
  EXPECT_EQ(backend->device().Description(), "cpu avx2, 3 threads");
  EXPECT_EQ(MakeCpuBackend({CpuIsa::kAvx2, true})->device().Description(),
            "cpu avx2, 1 thread, full precision");
  backend->BindThread();
}

TEST(BackendTest, ZeroThreadsMeansAllCores) {
  const std::string all = std::to_string(NumUsableCores());
  const std::unique_ptr<Backend> backend = MakeCpuBackend({CpuIsa::kAvx2, false}, 0);
  EXPECT_NE(backend->device().Description().find(", " + all + " thread"), std::string::npos);
}

TEST(BackendTest, GemmInputIsBf16WhereTheCpuMultipliesIt) {
  EXPECT_EQ(MakeCpuBackend({CpuIsa::kAvx2, false})->ops().gemm_input_dtype(), DType::kF32);
  EXPECT_EQ(MakeCpuBackend({CpuIsa::kAvx512Bf16, true})->ops().gemm_input_dtype(), DType::kF32);
}

TEST(BackendTest, RefusesWhatItHasNot) {
  EXPECT_EQ(CreateBackend(DeviceKind::kCpu, 1, {}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(CreateBackend(DeviceKind::kCpu, 0, {.num_threads = -1}).status().message(),
            "num_threads is -1, expected 0 (all cores) or more");
  EXPECT_FALSE(CreateBackend(DeviceKind::kCuda, -1, {}).ok());
}

TEST(BackendTest, MemoryIsAlignedAndMovable) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend({CpuIsa::kAvx2, false});
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20}) {
    DeviceBuffer buffer = backend->device().Allocate(bytes).value();
    EXPECT_EQ(buffer.num_bytes(), bytes);
    const auto address = reinterpret_cast<std::uintptr_t>(buffer.get());
    EXPECT_EQ(address % (bytes < std::size_t{1} << 20 ? 256 : 4096), 0u);
    std::memset(buffer.get(), 1, bytes);
    const DeviceBuffer moved = std::move(buffer);
    EXPECT_EQ(*moved.bytes_at(static_cast<std::int64_t>(bytes) - 1), std::byte{1});
  }
  EXPECT_EQ(backend->device().Allocate(0).value().get(), nullptr);
}

TEST(BackendTest, MemoryThatCannotBeHadIsAnError) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend({CpuIsa::kAvx2, false});
  const std::size_t huge = std::numeric_limits<std::size_t>::max() / 4;
  const absl::Status status = backend->device().Allocate(huge).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "cannot allocate " + std::to_string(huge) + " bytes of host memory");
  EXPECT_FALSE(backend->device().Allocate(std::numeric_limits<std::size_t>::max()).ok());
}

TEST(KernelTableTest, FindsARowForEachKey) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend({CpuIsa::kAvx2, false});
  for (const AttentionPhase phase : {AttentionPhase::kPrefill, AttentionPhase::kDecode}) {
    for (const DType kv_dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
      const AttentionKernel* kernel =
          backend->kernels().Find({AttentionMechanism::kAll, phase, kv_dtype, 64});
      ASSERT_NE(kernel, nullptr);
      EXPECT_EQ(kernel->key().phase, phase);
      EXPECT_EQ(kernel->key().kv_dtype, kv_dtype);
    }
  }
  EXPECT_EQ(
      backend->kernels().Find({AttentionMechanism::kAll, AttentionPhase::kDecode, DType::kI32, 64}),
      nullptr);
}

}  // namespace
}  // namespace thresher
