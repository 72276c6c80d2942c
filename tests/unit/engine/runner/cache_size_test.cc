// How large a cache gets where it takes what memory is left.
#include "engine/runner/cache_size.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/backend.h"

namespace thresher {
namespace {

// A block takes 2 · 3 layers · 2 KV heads · 16 slots · 8 numbers · 2 bytes = 3072 bytes.
constexpr KvCacheShape kShape = {
    .num_layers = 3, .num_blocks = 0, .num_kv_heads = 2, .block_size = 16, .head_dim = 8};
constexpr std::int64_t kBlockBytes = 3072;

TEST(NumBlocksThatFit, CountsWhatIsHeldAgainstTheShare) {
  // 0.75 of 1000 blocks' bytes, of which 200 are held already.
  const DeviceMemory memory = {.total_bytes = 1000 * kBlockBytes, .free_bytes = 800 * kBlockBytes};
  EXPECT_EQ(NumBlocksThatFit(kShape, 0.75, memory).value(), 550);
  EXPECT_EQ(NumBlocksThatFit(kShape, 1, memory).value(), 800);
}

TEST(NumBlocksThatFit, CountsSumsToo) {
  KvCacheShape shape = kShape;
  shape.keeps_sums = true;  // 2 · 3 layers · 2 KV heads · 8 numbers · 4 bytes = 384 bytes more
  const DeviceMemory memory = {.total_bytes = 90 * (kBlockBytes + 384),
                               .free_bytes = 90 * (kBlockBytes + 384)};
  EXPECT_EQ(NumBlocksThatFit(shape, 1, memory).value(), 90);
  EXPECT_EQ(CacheBytes({.num_layers = 3,
                        .num_blocks = 90,
                        .num_kv_heads = 2,
                        .block_size = 16,
                        .head_dim = 8,
                        .keeps_sums = true}),
            memory.total_bytes);
}

TEST(NumBlocksThatFit, RefusesWhereNoBlockFits) {
  for (const std::int64_t free_bytes :
       {std::int64_t{0}, 500 * kBlockBytes, 501 * kBlockBytes - 1}) {
    const absl::Status status =
        NumBlocksThatFit(kShape, 0.5, {.total_bytes = 1000 * kBlockBytes, .free_bytes = free_bytes})
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << free_bytes;
    EXPECT_NE(status.message().find("--kv-memory-fraction 0.5"), std::string::npos) << status;
  }
  EXPECT_EQ(NumBlocksThatFit(kShape, 0.5,
                             {.total_bytes = 1000 * kBlockBytes, .free_bytes = 501 * kBlockBytes})
                .value(),
            1);
}

TEST(NumBlocksThatFit, HasNoMoreTokensThanTheSchedulerCounts) {
  const DeviceMemory memory = {.total_bytes = std::int64_t{1} << 50,
                               .free_bytes = std::int64_t{1} << 50};
  EXPECT_EQ(NumBlocksThatFit(kShape, 0.9, memory).value(), (1 << 30) / 16);
}

TEST(DeviceMemory, OfTheCpuIsTheMachines) {
  const auto backend = CreateBackend(DeviceKind::kCpu, 0, {.num_threads = 1}).value();
  const absl::StatusOr<DeviceMemory> memory = backend->device().Memory();
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_GT(memory->total_bytes, std::int64_t{64} << 20);
  EXPECT_GT(memory->free_bytes, 0);
  EXPECT_LE(memory->free_bytes, memory->total_bytes);
}

TEST(KvCachePool, IsMadeAnewWithOtherBlocks) {
  const auto backend = CreateBackend(DeviceKind::kCpu, 0, {.num_threads = 1}).value();
  KvCacheShape shape = kShape;
  shape.num_blocks = 1;
  const SidecarSpec sidecar = {.name = "extra", .bytes = 4};
  const auto pool = KvCachePool::Create(shape, {&sidecar, 1}, backend->device()).value();
  EXPECT_EQ(pool->num_bytes(), kBlockBytes + 3 * 2 * 4);
  ASSERT_TRUE(pool->SetNumBlocks(5).ok());
  EXPECT_EQ(pool->shape().num_blocks, 5);
  EXPECT_EQ(pool->num_bytes(), 5 * (kBlockBytes + 3 * 2 * 4));
  EXPECT_EQ(pool->Layer(2).k.shape[0], 5);
  EXPECT_EQ(pool->Sidecar(0, 1) - pool->Sidecar(0, 0), 5 * 2 * 4);
  EXPECT_FALSE(pool->SetNumBlocks(0).ok());
}

}  // namespace
}  // namespace thresher
