// How mechanism `all` is cut into work on a GPU: pure functions, so that they are tested without
// one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace thresher {

// Prefill: a block of threads has so many rows (queries times the heads of a KV head), in two
// warpgroups, against tiles of so many keys. Tiles start at position 0.
inline constexpr int kGpuPrefillRows = 128;
inline constexpr int kPrefillKeys = 128;
inline constexpr int kPrefillStages = 2;     // tiles of K, and of V, in shared memory
inline constexpr int kPrefillThreads = 384;  // a warpgroup that loads, two that compute

// Decode: a warp has the heads of a group, at most so many at a time, against a range of keys that
// it loads in tiles.
inline constexpr int kDecodeHeads = 16;
inline constexpr int kDecodeKeys = 32;
constexpr int DecodeStages(int head_dim) { return head_dim <= 64 ? 4 : 3; }
inline constexpr int kMaxDecodeSplits = 64;
// Ranges are merged by fours, in one unit of work or by the last of four, and the results of that
// by the last of those.
inline constexpr int kMergeFour = 4;
inline constexpr int kMaxFours = kMaxDecodeSplits / kMergeFour;
// Counters of a row's merge: one for each four, and one for the fours.
inline constexpr int kMergeCounters = kMaxFours + 1;
// Warps of decode that a multiprocessor holds at once: what its shared memory of 227 KiB allows, of
// which a block takes one more.
constexpr int DecodeWarps(int head_dim) {
  return 227 / (DecodeStages(head_dim) * 2 * kDecodeKeys * head_dim * 2 / 1024 + 1);
}

// Keys of one range, for a row that sees num_keys: a function of that number alone, so that a row's
// bits do not depend on its batch. 256 keys of 128 numbers are 128 KB, against 2 KB of partial
// result for four heads. A long row has more ranges, as it may be alone on the GPU.
constexpr int GpuDecodeSplitSize(int num_keys) {
  const int splits = num_keys <= 16384 ? kMaxDecodeSplits / 2 : kMaxDecodeSplits;
  const int even = (num_keys + splits - 1) / splits;
  return std::max(128, (even + 63) / 64 * 64);
}

// Whether four ranges of a row make one unit: where the GPU's warps would have a share of at least
// about that many keys even so, fewer units write fewer partial results. `total_keys` counts the
// batch's keys once for each part of an item. Bits do not hang on it.
constexpr bool JoinsFours(int split_keys, std::int64_t total_keys, int warps) {
  return std::int64_t{4} * kMergeFour * split_keys * warps <= 5 * total_keys;
}

constexpr int NumGpuDecodeSplits(int num_keys) {
  const int size = GpuDecodeSplitSize(num_keys);
  return (num_keys + size - 1) / size;
}

// Counts of a plan are rounded up to the steps 1, 2, … 8, 10, 12, 14, 16, 20, …, so that plans of
// about one size have one layout, and a captured launch serves all of them.
constexpr int PlanStep(std::int64_t count) {
  int step = 0;
  std::int64_t size = count;
  for (; size > 8; size = (size + 1) / 2) step += 4;
  return step + static_cast<int>(size);
}
constexpr std::int64_t CountOfStep(int step) {
  if (step <= 8) return step;
  const int doublings = (step - 5) / 4;
  return std::int64_t{step - 4 * doublings} << doublings;
}

// Floats of a head's partial result: its sums of values, the maximum of its scores, its sum of
// weights, and two to keep the next one aligned.
constexpr int PartialStride(int head_dim) { return head_dim + 4; }

// Rows of the largest box of keys that lies within one block of the cache wherever it starts at a
// multiple of itself. Device code calls it too, where std::min would take a host constant's
// address.
constexpr int BoxRows(int block_size) {
  const int power = block_size & -block_size;
  return power < kPrefillKeys ? power : kPrefillKeys;
}

}  // namespace thresher
