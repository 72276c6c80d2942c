#include "engine/runner/kv_cache_pool.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/backend.h"

namespace thresher {
namespace {

constexpr KvCacheShape kShape{.num_layers = 3,
                              .num_blocks = 5,
                              .num_kv_heads = 2,
                              .block_size = 16,
                              .head_dim = 8,
                              .dtype = DType::kBF16};

std::unique_ptr<Backend> Cpu() {
  auto backend = CreateBackend(DeviceKind::kCpu, 0, {.num_threads = 1});
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

TEST(KvCachePool, LayersLieOneAfterAnotherAndDoNotOverlap) {
  const auto backend = Cpu();
  const auto pool = KvCachePool::Create(kShape, {}, backend->device());
  ASSERT_TRUE(pool.ok()) << pool.status();
  constexpr std::int64_t kLayerBytes = 5 * 2 * 16 * 8 * 2;
  EXPECT_EQ((*pool)->num_bytes(), 2 * 3 * kLayerBytes);
  for (int layer = 0; layer < 3; ++layer) {
    const KvCacheLayer views = (*pool)->Layer(layer);
    for (const TensorView& view : {views.k, views.v}) {
      EXPECT_EQ(ToString(view), "bf16[5, 2, 16, 8]");
      EXPECT_EQ(view.num_bytes(), kLayerBytes);
    }
    const KvCacheLayer first = (*pool)->Layer(0);
    EXPECT_EQ(views.k.as<std::byte>() - first.k.as<std::byte>(), layer * kLayerBytes);
    EXPECT_EQ(views.v.as<std::byte>() - first.v.as<std::byte>(), layer * kLayerBytes);
  }
}

TEST(KvCachePool, SidecarsFollowTheBlocks) {
  const auto backend = Cpu();
  const SidecarSpec kSidecars[] = {{"value_sums", 32}, {"scales", 4}};
  const auto pool = KvCachePool::Create(kShape, kSidecars, backend->device());
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ((*pool)->num_bytes(), 2 * 3 * 5 * 2 * 16 * 8 * 2 + 3 * 5 * 2 * (32 + 4));
  EXPECT_EQ((*pool)->Sidecar(0, 2) - (*pool)->Sidecar(0, 0), 2 * 5 * 2 * 32);
  EXPECT_EQ((*pool)->Sidecar(1, 1) - (*pool)->Sidecar(1, 0), 5 * 2 * 4);
}

TEST(KvCachePool, RefusesWhatCannotBe) {
  const auto backend = Cpu();
  KvCacheShape shape = kShape;
  shape.num_blocks = 0;
  EXPECT_EQ(KvCachePool::Create(shape, {}, backend->device()).status().code(),
            absl::StatusCode::kInvalidArgument);
  shape = kShape;
  shape.dtype = DType::kF16;
  const absl::Status status = KvCachePool::Create(shape, {}, backend->device()).status();
  EXPECT_NE(std::string(status.message()).find("f16"), std::string::npos) << status;
}

}  // namespace
}  // namespace thresher
