// Scores of a few queries against all keys of a sequence, in a version for each instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention_unit.h"
#include "kernels/device/cpu_isa.h"

namespace thresher {

inline constexpr int kScoreRows = 16;  // rows of one call at most: a vector of AVX-512, two of AVX2

constexpr std::int64_t ScoreScratchFloats(int head_dim) {
  return std::int64_t{kScoreRows} * head_dim  // queries, head_dim major
         + std::int64_t{kKeyTile} * head_dim  // keys of a tile
         + std::int64_t{kKeyTile} * kScoreRows;
}
// Floats between rows of scores: whole tiles, which are written in full.
constexpr std::int64_t ScoreStride(std::int64_t num_keys) {
  return (num_keys + kKeyTile - 1) / kKeyTile * kKeyTile;
}

// scores[r · ScoreStride(num_keys) + key] = scale · q[r]·k[key] in f32, for keys [0, num_keys);
// what stands after them means nothing. Of the unit it reads k's layout, num_keys, head_dim and
// scale. q has num_rows ≤ kScoreRows rows [head_dim]. Pure; a row does not depend on the others.
using ScoreRowsLoop = void (*)(const AttentionUnit& unit, const float* const* q, int num_rows,
                               float* scratch, float* scores);

ScoreRowsLoop ScoreRowsAvx2();
ScoreRowsLoop ScoreRowsAvx512();
inline ScoreRowsLoop ScoreRowsFor(CpuIsa isa) {
  return isa == CpuIsa::kAvx2 ? ScoreRowsAvx2() : ScoreRowsAvx512();
}

}  // namespace thresher
