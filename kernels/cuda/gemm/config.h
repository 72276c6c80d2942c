// How a product with few rows of input is cut into work on a GPU: pure functions, so that they are
// tested without one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace thresher {

inline constexpr int kSkinnyMaxRows = 64;  // of input
inline constexpr int kSkinnyDepth = 128;   // columns of the weight in a unit of work: two boxes
inline constexpr int kSkinnyMaxStages = 32;

// A tile is 64 · groups rows of the weight; its columns are cut into units of kSkinnyDepth. The
// blocks of a cluster share a tile's units out in order; of unsplit tiles each block has some in a
// row, so that those with one more lie among those with one less (57 us instead of 60 for 28,672
// rows of 4,096).
struct SkinnyConfig {
  int groups = 1;               // warpgroups of a block, 64 rows of the weight each: 1, 2 or 4
  int splits = 1;               // blocks of a cluster: 1, 2, 4 or 8
  int blocks_of_processor = 1;  // that find room in its memory side by side
  friend bool operator==(const SkinnyConfig&, const SkinnyConfig&) = default;
};

struct SkinnyWork {
  int num_tiles = 0;
  int tile_units = 0;  // of one tile
  int num_blocks = 0;  // a multiple of splits
};

// The units of block `rank` of a cluster are those from its first to the next one's.
constexpr int FirstSkinnyUnit(int tile_units, int splits, int rank) {
  return static_cast<int>(std::int64_t{tile_units} * rank / splits);
}

// The tiles of a block are those from its first to the next one's, of unsplit tiles.
constexpr int FirstSkinnyTile(int num_tiles, int num_blocks, int block) {
  return static_cast<int>(std::int64_t{num_tiles} * block / num_blocks);
}

// A split tile has a cluster of its own.
constexpr SkinnyWork CutSkinny(const SkinnyConfig& config, std::int64_t rows, std::int64_t cols,
                               int num_processors) {
  SkinnyWork work;
  const std::int64_t tile_rows = std::int64_t{64} * config.groups;
  work.num_tiles = static_cast<int>((rows + tile_rows - 1) / tile_rows);
  work.tile_units = static_cast<int>((cols + kSkinnyDepth - 1) / kSkinnyDepth);
  work.num_blocks = config.splits > 1
                        ? work.num_tiles * config.splits
                        : std::min(work.num_tiles, num_processors * config.blocks_of_processor);
  return work;
}

// Rows of input that the kernel counts with: the matrix unit takes multiples of eight.
constexpr int SkinnyBatch(std::int64_t n) { return n <= 8 ? 8 : n <= 16 ? 16 : n <= 32 ? 32 : 64; }

// A stage of a block's ring: a tile's unit of the weight, then that of the input.
constexpr int SkinnyStageBytes(int groups, int batch) {
  return (64 * groups + batch) * 2 * kSkinnyDepth;
}

// Sums that the other blocks of a cluster send to its first.
constexpr int SkinnySumBytes(const SkinnyConfig& config, int batch) {
  return (config.splits - 1) * 64 * config.groups * batch * 4;
}

// Beside ring and sums: two barriers a stage and one of the sums, and what aligns the ring.
constexpr int SkinnySharedBytes(const SkinnyConfig& config, int batch, int stages) {
  return 1024 + stages * (SkinnyStageBytes(config.groups, batch) + 16) + 16 +
         SkinnySumBytes(config, batch);
}

// The kernel gives a stage back after it has begun the next one, and loads run a stage ahead.
inline constexpr int kSkinnyMinStages = 3;

// Stages that find room; the kernel needs kSkinnyMinStages.
constexpr int SkinnyStages(const SkinnyConfig& config, int batch, int bytes_of_processor) {
  // A block takes a kilobyte beside what it asks for.
  const int bytes = bytes_of_processor / config.blocks_of_processor - 1024;
  const int stages =
      (bytes - SkinnySharedBytes(config, batch, 0)) / (SkinnyStageBytes(config.groups, batch) + 16);
  return std::clamp(stages, 0, kSkinnyMaxStages);
}

// The configurations worth a try for a bf16 weight [rows, cols] and n rows of input, most promising
// first; none if the kernel does not take the product. Few: each is timed at start.
inline std::vector<SkinnyConfig> SkinnyCandidates(std::int64_t rows, std::int64_t cols,
                                                  std::int64_t n, int num_processors,
                                                  int bytes_of_processor) {
  // The copy engine wants rows of whole 16 bytes.
  if (n < 1 || n > kSkinnyMaxRows || cols % 8 != 0 || rows < 1) return {};
  constexpr SkinnyConfig kTried[] = {{1, 1, 1}, {1, 2, 1}, {1, 2, 2}, {2, 1, 1}, {2, 2, 1},
                                     {1, 1, 2}, {1, 4, 2}, {1, 4, 3}, {2, 1, 2}, {4, 1, 1}};
  std::vector<SkinnyConfig> candidates;
  for (const SkinnyConfig& config : kTried) {
    const SkinnyWork work = CutSkinny(config, rows, cols, num_processors);
    const int room = num_processors * config.blocks_of_processor;
    // Clusters run side by side, each with units for all of its blocks; tiles of several warpgroups
    // are for weights that fill the processors with them.
    const bool fits = config.splits == 1
                          ? config.groups == 1 || 2 * work.num_tiles >= num_processors
                          : work.num_blocks <= room && work.tile_units >= config.splits;
    if (fits && SkinnyStages(config, SkinnyBatch(n), bytes_of_processor) >= kSkinnyMinStages) {
      candidates.push_back(config);
    }
  }
  return candidates;
}

}  // namespace thresher
