// How products with few rows of input are cut into work. Needs no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/cuda/gemm/config.h"
#include "kernels/cuda/gemm/product.h"

namespace thresher {
namespace {

// An H200.
constexpr int kProcessors = 132, kSharedBytes = 228 * 1024;

constexpr std::pair<int, int> kShapes[] = {{6144, 4096},  {4096, 4096}, {28672, 4096},
                                           {4096, 14336}, {1, 8},       {128256, 4096},
                                           {999, 576},    {65, 136}};

TEST(SkinnyConfig, EveryUnitOfEveryTileIsOneBlocks) {
  for (const auto& [rows, cols] : kShapes) {
    for (const std::int64_t n : {1, 16, 64}) {
      for (const SkinnyConfig& config :
           SkinnyCandidates(rows, cols, n, kProcessors, kSharedBytes)) {
        const SkinnyWork work = CutSkinny(config, rows, cols, kProcessors);
        ASSERT_GE(work.num_tiles * 64 * config.groups, rows);
        ASSERT_GE(work.tile_units * kSkinnyDepth, cols);
        ASSERT_EQ(work.num_blocks % config.splits, 0);
        std::vector<int> times(static_cast<std::size_t>(work.num_tiles * work.tile_units));
        const int num_clusters = work.num_blocks / config.splits;
        for (int cluster = 0; cluster < num_clusters; ++cluster) {
          const int first = FirstSkinnyTile(work.num_tiles, num_clusters, cluster);
          const int end = FirstSkinnyTile(work.num_tiles, num_clusters, cluster + 1);
          ASSERT_TRUE(config.splits == 1 || end == first + 1);
          for (int tile = first; tile < end; ++tile) {
            for (int rank = 0; rank < config.splits; ++rank) {
              const int stop = FirstSkinnyUnit(work.tile_units, config.splits, rank + 1);
              int unit = FirstSkinnyUnit(work.tile_units, config.splits, rank);
              ASSERT_LT(unit, stop) << "a block without work";
              for (; unit < stop; ++unit) {
                ++times[static_cast<std::size_t>(tile * work.tile_units + unit)];
              }
            }
          }
        }
        EXPECT_EQ(std::count(times.begin(), times.end(), 1),
                  static_cast<std::ptrdiff_t>(times.size()));
      }
    }
  }
}

TEST(SkinnyConfig, BlocksFindRoomSideBySide) {
  for (const auto& [rows, cols] : kShapes) {
    for (const std::int64_t n : {1, 9, 17, 33, 64}) {
      const int batch = SkinnyBatch(n);
      EXPECT_GE(batch, n);
      for (const SkinnyConfig& config :
           SkinnyCandidates(rows, cols, n, kProcessors, kSharedBytes)) {
        const int stages = SkinnyStages(config, batch, kSharedBytes);
        EXPECT_GE(stages, kSkinnyMinStages);
        EXPECT_LE(stages, kSkinnyMaxStages);
        const int bytes = SkinnySharedBytes(config, batch, stages);
        EXPECT_LE(bytes, 227 * 1024);
        EXPECT_LE((bytes + 1024) * config.blocks_of_processor, kSharedBytes);
      }
    }
  }
}

TEST(SkinnyConfig, TakesWhatTheKernelCan) {
  const auto count = [](int rows, int cols, int n) {
    return SkinnyCandidates(rows, cols, n, kProcessors, kSharedBytes).size();
  };
  for (const auto& [rows, cols] : kShapes) {
    for (int n = 1; n <= 64; ++n) {
      EXPECT_GE(count(rows, cols, n), 1u) << rows << " " << cols << " " << n;
      EXPECT_LE(count(rows, cols, n), 10u);
    }
  }
  EXPECT_EQ(count(64, 4096, 65), 0u);
  EXPECT_EQ(count(64, 4096, 0), 0u);
  EXPECT_EQ(count(64, 4100, 1), 0u);  // rows of 8,200 bytes
}

TEST(GemmBuckets, AscendAndHoldTheirRows) {
  for (int bucket = 0; bucket < 60; ++bucket) {
    EXPECT_EQ(GemmBucketOf(RowsOfGemmBucket(bucket)), bucket);
    EXPECT_EQ(GemmBucketOf(RowsOfGemmBucket(bucket) + 1), bucket + 1);
  }
  const std::int64_t first[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20};
  for (int bucket = 0; bucket < 13; ++bucket) EXPECT_EQ(RowsOfGemmBucket(bucket), first[bucket]);
}

}  // namespace
}  // namespace thresher
