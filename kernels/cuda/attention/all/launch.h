// Launches of the kernels of mechanism `all`.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/device/dtype.h"
#include "kernels/ops/attention_kernel.h"

namespace thresher {

// A sequence of the batch as kernels read it.
struct SequenceLaunch {
  std::int32_t first_row = 0;  // of q
  std::int32_t query_length = 0;
  std::int32_t context_length = 0;
  std::int32_t block_table_start = 0;
};

// A unit of decode, for every part of the heads: ranges of a query's keys, each of split_keys but
// the last, which are summed alone and then merged in order. All ranges of a four, or one.
struct DecodeItem {
  std::int32_t row = 0;          // of q
  std::int32_t table_entry = 0;  // of block_tables: the block of first_key
  std::int32_t first_key = 0;    // position
  std::int32_t num_keys = 0;     // 0: fills the grid up
  std::int32_t split_keys = 0;
  std::int32_t merge = -1;   // index into merge_start if the row has other units, else −1
  std::int32_t partial = 0;  // slot of the first range
  std::int32_t unused = 0;
};

// Device memory, but for the tensor maps; shapes as in AttentionLayer.
struct AttentionLaunch {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* out = nullptr;
  DType kv_dtype = DType::kBF16;
  DType out_dtype = DType::kF32;
  DType q_dtype = DType::kF32;  // or bf16
  float scale = 0;
  std::int32_t num_heads = 0, num_kv_heads = 0, head_dim = 0, block_size = 0;
  const AttentionWorkItem* items = nullptr;  // or decode_items
  const DecodeItem* decode_items = nullptr;
  std::int32_t num_items = 0;
  const SequenceLaunch* sequences = nullptr;
  const std::int32_t* block_tables = nullptr;
  // Decode: the plan's merge_start; partial results [slots, num_heads, PartialStride]; counters
  // [merges, KV heads times parts of a group, kMergeCounters], zero between layers.
  const std::int32_t* merge_start = nullptr;
  float* partials = nullptr;
  std::int32_t* counters = nullptr;
};

// K and V of the layer as tensors of [rows, head_dim], boxes of [BoxRows, 64] with the 128-byte
// swizzle.
struct PrefillMaps {
  CUtensorMap k;
  CUtensorMap v;
};

using PrefillLaunchFunction = cudaError_t(const AttentionLaunch&, const PrefillMaps&, cudaStream_t);
using DecodeLaunchFunction = cudaError_t(const AttentionLaunch&, cudaStream_t);

// An item is some rows of a sequence for one KV head.
PrefillLaunchFunction LaunchPrefillBf16Dim64, LaunchPrefillBf16Dim128, LaunchPrefillF16Dim64,
    LaunchPrefillF16Dim128;
// Takes decode_items.
DecodeLaunchFunction LaunchDecodeBf16Dim64, LaunchDecodeBf16Dim128, LaunchDecodeF16Dim64,
    LaunchDecodeF16Dim128;
// Any head_dim up to 256 and any dtype, sums in f32: an item is a query of a sequence, for every
// head; one without keys is left out.
DecodeLaunchFunction LaunchPlainRows;

}  // namespace thresher
