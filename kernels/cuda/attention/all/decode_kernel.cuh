// Decode of mechanism `all`: a warp for each (query, KV head, one or four ranges of keys), alone in
// its block, so that nothing but the loads of K and V paces it. The heads of the group are the 16
// rows of the matrix products (grouped-query packing as in FlashInfer and FlashAttention's decode).
// Ranges are merged by fours, and the fours in order of keys, by the warps that finish last (split
// KV as in Flash-Decoding); a warp that has all four merges them by the same operations in
// registers.
//
// Shared memory: kStages tiles, each kDecodeKeys rows of K, then as many of V; a row's 16-byte
// chunks are permuted by its number, so that the eight rows of a matrix lie in different banks.
#pragma once

#include "kernels/cuda/attention/all/config.h"
#include "kernels/cuda/attention/all/decode_merge.cuh"
#include "kernels/cuda/attention/all/launch.h"
#include "kernels/cuda/attention/all/matrix_units.cuh"
#include "kernels/cuda/device_math.cuh"

namespace thresher {

template <typename T, int kDim>
struct DecodeTiles {
  static constexpr int kStages = DecodeStages(kDim);
  static constexpr int kChunks = kDim / 8;  // of 16 bytes, in a row
  static constexpr int kRowBytes = kDim * 2;
  static constexpr int kTileBytes = kDecodeKeys * kRowBytes;
  static constexpr int kSharedBytes = kStages * 2 * kTileBytes;

  __device__ static std::uint32_t Offset(int row, int chunk) {
    return static_cast<std::uint32_t>(row * kRowBytes + ((chunk ^ (row & 7)) * 16));
  }
};

// The loads of one warp's range of keys, tile by tile. Eight rows of a tile lie in one block of the
// cache: blocks are multiples of eight slots, and so are the positions at which eight rows start.
template <typename T, int kDim>
class DecodeLoader {
 public:
  using Tiles = DecodeTiles<T, kDim>;
  static constexpr int kStep = 32 / Tiles::kChunks;  // rows that a copy of the whole warp takes
  static constexpr int kCopies = 8 / kStep;          // of eight rows
  static constexpr int kEights = kDecodeKeys / 8;

  __device__ DecodeLoader(const AttentionLaunch& a, const DecodeItem& item, int kv_head,
                          std::uint32_t shared)
      : table_(a.block_tables + item.table_entry),
        block_size_(a.block_size),
        block_rows_(a.num_kv_heads * a.block_size),
        left_(item.num_keys),
        shared_(shared),
        entry_(0),
        offset_(item.first_key % a.block_size) {
    const int chunk = threadIdx.x % Tiles::kChunks, first = threadIdx.x / Tiles::kChunks;
    const std::int64_t lane = (std::int64_t{kv_head} * a.block_size + first) * kDim + chunk * 8;
    k_ = static_cast<const T*>(a.k) + lane;
    v_ = static_cast<const T*>(a.v) + lane;
    first_ = first;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) to_[i] = Tiles::Offset(first + i * kStep, chunk);
    LookUp();
  }

  // Starts the next tile's loads, or none past the range, into `stage`.
  __device__ void LoadNext(int stage) {
    if (left_ > 0) {
      const std::uint32_t to = shared_ + stage * 2 * Tiles::kTileBytes;
#pragma unroll
      for (int eight = 0; eight < kEights; ++eight) {
        const std::int64_t at = row_[eight] * kDim;
#pragma unroll
        for (int i = 0; i < kCopies; ++i) {
          const std::uint32_t row_to = to + to_[i] + eight * 8 * Tiles::kRowBytes;
          const bool valid = eight * 8 + i * kStep + first_ < left_;
          CopyAsync(row_to, k_ + at + i * kStep * kDim, valid);
          CopyAsync(row_to + Tiles::kTileBytes, v_ + at + i * kStep * kDim, valid);
        }
      }
      left_ -= kDecodeKeys;
      LookUp();
    }
    CommitCopies();
  }

 private:
  // The cache rows of the next tile, a tile before they are needed. Rows past the range are not
  // looked up; their copies read nothing.
  __device__ void LookUp() {
#pragma unroll
    for (int eight = 0; eight < kEights; ++eight) {
      if (eight * 8 < left_) {
        row_[eight] = std::int64_t{table_[entry_]} * block_rows_ + offset_;
        offset_ += 8;
        if (offset_ == block_size_) {
          offset_ = 0;
          ++entry_;
        }
      }
    }
  }

  const std::int32_t* const table_;
  const int block_size_, block_rows_;
  int left_;  // keys not loaded yet
  const std::uint32_t shared_;
  int entry_, offset_;  // of the table, and within its block
  const T* k_;
  const T* v_;
  int first_;
  std::uint32_t to_[kCopies];
  std::int64_t row_[kEights] = {};
};

// Adds a tile of keys. `q` are the fragments of the queries; keys from num_valid on are not seen.
template <typename T, int kDim>
__device__ inline void AddTile(std::uint32_t tile, const std::uint32_t (&q)[kDim / 16][4],
                               float factor, int num_valid, DecodeSums<kDim>& sums) {
  using Tiles = DecodeTiles<T, kDim>;
  constexpr int kEights = kDecodeKeys / 8;
  const int lane = threadIdx.x, matrix = lane / 8, row = lane % 8;
  float s[kEights][4] = {};
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step) {
#pragma unroll
    for (int j = 0; j < kEights; j += 2) {
      std::uint32_t k[4];
      LoadMatrices(tile + Tiles::Offset((j + matrix / 2) * 8 + row, 2 * step + matrix % 2), k);
      MultiplyWarp<T>(s[j], q[step], k[0], k[1]);
      MultiplyWarp<T>(s[j + 1], q[step], k[2], k[3]);
    }
  }
  if (num_valid < kDecodeKeys) {
#pragma unroll
    for (int i = 0; i < 4 * kEights; ++i) {
      const int key = i / 4 * 8 + lane % 4 * 2 + i % 2;
      if (key >= num_valid) s[i / 4][i % 4] = -INFINITY;
    }
  }
  float rescale[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float most = sums.largest[half];
#pragma unroll
    for (int j = 0; j < kEights; ++j) {
      most = fmaxf(most, fmaxf(s[j][2 * half], s[j][2 * half + 1]));
    }
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 2));
    rescale[half] = Exp2((sums.largest[half] - most) * factor);
    sums.largest[half] = most;
    const float shift = most * factor;
    float total = sums.total[half] * rescale[half];
#pragma unroll
    for (int j = 0; j < kEights; ++j) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        s[j][i] = Exp2(s[j][i] * factor - shift);
        total += s[j][i];
      }
    }
    sums.total[half] = total;
  }
  if (__any_sync(kAllLanes, rescale[0] != 1.0f || rescale[1] != 1.0f)) {
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) {
      sums.out[i][0] *= rescale[0];
      sums.out[i][1] *= rescale[0];
      sums.out[i][2] *= rescale[1];
      sums.out[i][3] *= rescale[1];
    }
  }
#pragma unroll
  for (int j = 0; j < kEights; j += 2) {
    const std::uint32_t p[4] = {Pack<T>(s[j][0], s[j][1]), Pack<T>(s[j][2], s[j][3]),
                                Pack<T>(s[j + 1][0], s[j + 1][1]),
                                Pack<T>(s[j + 1][2], s[j + 1][3])};
#pragma unroll
    for (int i = 0; i < kDim / 8; i += 2) {
      std::uint32_t v[4];
      LoadMatricesTransposed(
          tile + Tiles::kTileBytes + Tiles::Offset((j + matrix % 2) * 8 + row, i + matrix / 2), v);
      MultiplyWarp<T>(sums.out[i], p, v[0], v[1]);
      MultiplyWarp<T>(sums.out[i + 1], p, v[2], v[3]);
    }
  }
}

// The queries of the heads as fragments of the left operand, from element `at` on; rows of heads
// that are not there are zero.
template <typename T, int kDim>
__device__ __forceinline__ void LoadQueries(DType dtype, const void* queries, std::int64_t at,
                                            int num_heads, std::uint32_t (&q)[kDim / 16][4]) {
  const int g = threadIdx.x / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int head = g + i % 2 * 8, column = step * 16 + i / 2 * 8 + 2 * t;
      q[step][i] = head < num_heads ? LoadPair<T>(dtype, queries, at + head * kDim + column) : 0;
    }
  }
}

// Grid: items, then KV heads times parts of kDecodeHeads heads of their group.
template <typename T, int kDim>
__global__ void __launch_bounds__(32) DecodeAll(const __grid_constant__ AttentionLaunch a) {
  extern __shared__ __align__(128) unsigned char shared_bytes[];
  using Tiles = DecodeTiles<T, kDim>;
  constexpr int kStages = Tiles::kStages;
  const DecodeItem item = a.decode_items[blockIdx.x];
  if (item.num_keys == 0) return;
  const int group_size = a.num_heads / a.num_kv_heads;
  const int parts = (group_size + kDecodeHeads - 1) / kDecodeHeads;
  const int kv_head = blockIdx.y / parts;
  const int first_head = kv_head * group_size + blockIdx.y % parts * kDecodeHeads;
  const int num_heads = min(kDecodeHeads, (kv_head + 1) * group_size - first_head);
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  const std::uint32_t shared = SharedAddress(shared_bytes);
  DecodeLoader<T, kDim> loader(a, item, kv_head, shared);
#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) loader.LoadNext(stage);

  const std::int64_t at = (std::int64_t{item.row} * a.num_heads + first_head) * kDim;
  std::uint32_t q[kDim / 16][4];
  // Asked once, outside: a branch between the loads would make each wait for the one before.
  if (a.q_dtype == DType::kF32) {
    LoadQueries<T, kDim>(DType::kF32, a.q, at, num_heads, q);
  } else {
    LoadQueries<T, kDim>(DType::kBF16, a.q, at, num_heads, q);
  }

  // A tile never spans two ranges, as these are multiples of 64 keys.
  static_assert(64 % kDecodeKeys == 0);
  const float factor = a.scale * 1.44269504f;  // log2(e)
  DecodeSums<kDim> sums;
  int stage = 0;
  for (int first = 0; first < item.num_keys; first += item.split_keys) {
    DecodeSums<kDim> range;
    const int end = min(item.num_keys, first + item.split_keys);
    for (int key = first; key < end; key += kDecodeKeys) {
      WaitCopies<kStages - 2>();
      __syncwarp();  // every lane's copies are there, and nobody reads the tile before any more
      loader.LoadNext(stage == 0 ? kStages - 1 : stage - 1);
      AddTile<T, kDim>(shared + stage * 2 * Tiles::kTileBytes, q, factor, end - key, range);
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      range.total[half] += __shfl_xor_sync(kAllLanes, range.total[half], 1);
      range.total[half] += __shfl_xor_sync(kAllLanes, range.total[half], 2);
    }
    if (first == 0) {
      sums = range;
    } else {
      FoldRange<kDim>(range, factor, sums);
    }
  }

  if (item.merge < 0) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (g + 8 * half >= num_heads) continue;
      const std::int64_t to = at + (g + 8 * half) * kDim + 2 * t;
#pragma unroll
      for (int i = 0; i < kDim / 8; ++i) {
        StoreAs(a.out_dtype, a.out, to + 8 * i, sums.out[i][2 * half] / sums.total[half]);
        StoreAs(a.out_dtype, a.out, to + 8 * i + 1, sums.out[i][2 * half + 1] / sums.total[half]);
      }
    }
    return;
  }
  constexpr int kStride = PartialStride(kDim);
  float* partial = a.partials + (std::int64_t{item.partial} * a.num_heads + first_head) * kStride;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (g + 8 * half >= num_heads) continue;
    float* to = partial + (g + 8 * half) * kStride;
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) {
      *reinterpret_cast<float2*>(to + 8 * i + 2 * t) = {sums.out[i][2 * half],
                                                        sums.out[i][2 * half + 1]};
    }
    if (t == 0) *reinterpret_cast<float2*>(to + kDim) = {sums.largest[half], sums.total[half]};
  }
  MergeRanges<kDim>(a, item, first_head, num_heads, factor, at);
}

template <typename T, int kDim>
cudaError_t LaunchDecode(const AttentionLaunch& a, cudaStream_t stream) {
  if (a.num_items == 0) return cudaSuccess;
  constexpr int kBytes = DecodeTiles<T, kDim>::kSharedBytes;
  const cudaError_t error =
      cudaFuncSetAttribute(DecodeAll<T, kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  const int group_size = a.num_heads / a.num_kv_heads;
  const int parts = (group_size + kDecodeHeads - 1) / kDecodeHeads;
  const dim3 grid(static_cast<unsigned>(a.num_items),
                  static_cast<unsigned>(a.num_kv_heads * parts));
  DecodeAll<T, kDim><<<grid, 32, kBytes, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace thresher
