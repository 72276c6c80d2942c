// One unit of attention for the inner loops, which exist once for each instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device/dtype.h"

namespace thresher {

// Rows [first_row, first_row + num_rows) of a sequence for one KV head, see AttentionWorkItem; row
// r's query is r / group_size. Keys are positions [first_key, first_key + num_keys), of which a row
// sees those up to its own position, context_length + its query.
struct AttentionUnit {
  // Query 0 of the sequence, first head of the group. Row r is at
  // q + (r / group_size) · query_stride + (r % group_size) · head_dim; so it is in `out`.
  const float* q = nullptr;
  void* out = nullptr;
  std::int64_t query_stride = 0;  // elements
  DType out_dtype = DType::kF32;  // f32 or bf16
  int group_size = 0;
  int head_dim = 0;  // a multiple of 8, at most 256
  float scale = 0;

  int first_row = 0;
  int num_rows = 0;
  int context_length = 0;
  int first_key = 0;  // a multiple of kKeyTile
  int num_keys = 0;
  // Null: all of those keys. Else, of a prefill, only the keys of these blocks of kListedBlock
  // positions [num_listed], ascending; each row sees a key of the first one.
  const std::uint16_t* listed = nullptr;
  int num_listed = 0;

  // The KV head's part of block 0; block b's is block_bytes · b further on and holds
  // [block_size, head_dim] elements.
  const std::byte* k = nullptr;
  const std::byte* v = nullptr;
  std::int64_t block_bytes = 0;
  const std::int32_t* block_table = nullptr;
  int block_size = 0;  // a multiple of 8
  DType kv_dtype = DType::kBF16;

  // Null: write `out`. Else [num_rows] partial results of PartialFloats(head_dim) each.
  float* partial = nullptr;
};

// A partial result of a row: the largest score (base-2 logarithm), the sum of weights relative to
// it, six unused floats, then the weighted sum of values [head_dim].
inline constexpr int kPartialHeader = 8;
constexpr std::int64_t PartialFloats(int head_dim) { return kPartialHeader + head_dim; }

inline constexpr int kKeyTile = 64;  // keys between two updates of the running maximum
inline constexpr int kListedBlock = 128;
inline constexpr int kPrefillRows = 48;  // rows of a prefill unit: 3 vectors of AVX-512, 6 of AVX2

// Floats of scratch that a unit needs.
constexpr std::int64_t PrefillScratchFloats(int head_dim) {
  return std::int64_t{2} * kPrefillRows * head_dim      // queries and outputs, head_dim major
         + std::int64_t{2} * kKeyTile * head_dim        // keys and values of a tile
         + std::int64_t{2} * kKeyTile * kPrefillRows    // scores and weights
         + std::int64_t{kPrefillRows} * (8 + head_dim)  // running state; outputs, row major
         + 64;
}
constexpr std::int64_t DecodeScratchFloats(int head_dim, int group_size) {
  return std::int64_t{group_size} * (2 * (head_dim + 16) + kKeyTile + 16);
}

// Function pointers of one instruction set. Pure functions; a row's result depends on nothing but
// the row, its keys and the unit's first_key and num_keys, bit by bit.
struct AttentionAllLoops {
  // At most kPrefillRows rows; first_key is 0.
  void (*prefill)(const AttentionUnit& unit, float* scratch);
  // The rows of one query, all of which see every key of the unit.
  void (*decode)(const AttentionUnit& unit, float* scratch);
  // Merges `num_partials` results of each of the unit's rows, `stride` floats apart, in order, and
  // writes `out`.
  void (*merge)(const AttentionUnit& unit, const float* partials, int num_partials,
                std::int64_t stride, float* scratch);
};

const AttentionAllLoops& AttentionAllLoopsAvx2();
const AttentionAllLoops& AttentionAllLoopsAvx512();
// Products of a prefill over a bf16 cache in bf16: queries and weights are rounded to bf16.
const AttentionAllLoops& AttentionAllLoopsAvx512Bf16();

}  // namespace thresher
