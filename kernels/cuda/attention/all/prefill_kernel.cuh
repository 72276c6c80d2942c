// Prefill of mechanism `all`: one warp loads tiles of K and V through the copy engine, page by
// page; two warpgroups compute, each 64 rows of the item. While a warpgroup turns one tile's scores
// into weights, the matrix units work on the next tile's scores and on the last tile's values (warp
// specialisation and the overlap within a warpgroup as in FlashAttention-3, arXiv 2407.08608).
//
// Rows are queries times the heads of a KV head. Tiles of keys start at position 0 and ascend, and
// a tile that a row does not see changes nothing, so that a row's bits depend neither on chunks nor
// on batch-mates.
//
// Shared memory, each part at a multiple of 1,024 bytes: Q of each warpgroup [kDim / 64][64 rows],
// then the stages of K and those of V, [kDim / 64][128 keys] of 128-byte rows, all with the
// 128-byte swizzle; then the barriers.
#pragma once

#include "kernels/cuda/attention/all/config.h"
#include "kernels/cuda/attention/all/launch.h"
#include "kernels/cuda/attention/all/warpgroup_products.cuh"
#include "kernels/cuda/device_math.cuh"

namespace thresher {

template <int kDim>
struct PrefillShared {
  static constexpr int kHalves = kDim / 64;  // columns of 128 bytes
  static constexpr int kGroupRows = kGpuPrefillRows / 2;
  static constexpr int kQueryHalfBytes = kGroupRows * 128;
  static constexpr int kQueryBytes = kHalves * kQueryHalfBytes;
  static constexpr int kTileHalfBytes = kPrefillKeys * 128;
  static constexpr int kTileBytes = kHalves * kTileHalfBytes;
  static constexpr int kKeys = 2 * kQueryBytes;
  static constexpr int kValues = kKeys + kPrefillStages * kTileBytes;
  static constexpr int kBarriers = kValues + kPrefillStages * kTileBytes;
  // The start is aligned by hand.
  static constexpr int kBytes = kBarriers + 4 * kPrefillStages * 8 + 1024;
};

// The barriers of a stage of K (which = 0) or V (1): full, then empty.
template <int kDim>
__device__ inline std::uint32_t FullBarrier(std::uint32_t shared, int which, int stage) {
  return shared + PrefillShared<kDim>::kBarriers + (which * 2 * kPrefillStages + stage) * 8;
}
template <int kDim>
__device__ inline std::uint32_t EmptyBarrier(std::uint32_t shared, int which, int stage) {
  return FullBarrier<kDim>(shared, which, stage) + kPrefillStages * 8;
}

// Loads all tiles of the item. Called by one whole warp.
template <int kDim>
__device__ inline void LoadTiles(const AttentionLaunch& a, const PrefillMaps& maps,
                                 const AttentionWorkItem& item, const std::int32_t* table,
                                 std::uint32_t shared) {
  using Shared = PrefillShared<kDim>;
  const int lane = threadIdx.x % 32;
  const int box_rows = BoxRows(a.block_size);
  const int num_tiles = (item.num_keys + kPrefillKeys - 1) / kPrefillKeys;
  for (int tile = 0; tile < num_tiles; ++tile) {
    const int stage = tile % kPrefillStages;
    const std::uint32_t parity = tile / kPrefillStages % 2 ^ 1;  // the first round waits for nobody
    const int first_key = tile * kPrefillKeys;
    const int num_keys = min(kPrefillKeys, item.num_keys - first_key);
    const int num_boxes = (num_keys + box_rows - 1) / box_rows;
    const std::uint32_t bytes = num_boxes * box_rows * 128 * Shared::kHalves;
    for (int which = 0; which < 2; ++which) {
      const std::uint32_t full = FullBarrier<kDim>(shared, which, stage);
      WaitBarrier(EmptyBarrier<kDim>(shared, which, stage), parity);
      if (lane == 0) ArriveExpecting(full, bytes);
      __syncwarp();
      const std::uint32_t to =
          shared + (which == 0 ? Shared::kKeys : Shared::kValues) + stage * Shared::kTileBytes;
      for (int box = lane; box < num_boxes; box += 32) {
        const int position = first_key + box * box_rows;
        const int block = table[position / a.block_size];
        const int row =
            (block * a.num_kv_heads + item.kv_head) * a.block_size + position % a.block_size;
#pragma unroll
        for (int half = 0; half < Shared::kHalves; ++half) {
          CopyBox(to + half * Shared::kTileHalfBytes + box * box_rows * 128,
                  which == 0 ? &maps.k : &maps.v, half * 64, row, full);
        }
      }
    }
  }
}

// What a thread of a computing warpgroup knows of its two rows.
struct PrefillRows {
  int position[2];      // of the row's query; of the item's last row where there is no row
  std::int64_t out[2];  // first element of the row in q and out
  bool exists[2];
};

__device__ inline PrefillRows RowsOf(const AttentionLaunch& a, const AttentionWorkItem& item,
                                     const SequenceLaunch& sequence, int first_row) {
  const int group_size = a.num_heads / a.num_kv_heads;
  PrefillRows rows;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + 8 * half;
    rows.exists[half] = row < item.num_rows;
    const int packed = item.first_row + min(row, item.num_rows - 1);
    const int query = packed / group_size;
    const int head = item.kv_head * group_size + packed % group_size;
    rows.position[half] = sequence.context_length + query;
    rows.out[half] = (std::int64_t{sequence.first_row + query} * a.num_heads + head) * a.head_dim;
  }
  return rows;
}

// Rounds the warpgroup's queries into shared memory. Rows that the item does not have repeat its
// last one.
template <typename T, int kDim>
__device__ inline void StoreQueries(const AttentionLaunch& a, const AttentionWorkItem& item,
                                    const SequenceLaunch& sequence, int group,
                                    std::uint32_t shared) {
  using Shared = PrefillShared<kDim>;
  const int group_size = a.num_heads / a.num_kv_heads;
  constexpr int kChunks = kDim / 8;  // of eight numbers
  for (int i = threadIdx.x % 128; i < Shared::kGroupRows * kChunks; i += 128) {
    const int row = i / kChunks, chunk = i % kChunks;
    const int packed = item.first_row + min(group * Shared::kGroupRows + row, item.num_rows - 1);
    const std::int64_t query_row = sequence.first_row + packed / group_size;
    const int head = item.kv_head * group_size + packed % group_size;
    const uint4 eight =
        LoadEight<T>(a.q_dtype, a.q, (query_row * a.num_heads + head) * kDim + chunk * 8);
    const std::uint32_t to = shared + group * Shared::kQueryBytes +
                             chunk / 8 * Shared::kQueryHalfBytes + row * 128 +
                             ((chunk % 8 ^ row % 8) * 16);
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(eight.x), "r"(eight.y),
                 "r"(eight.z), "r"(eight.w)
                 : "memory");
  }
  FenceAsyncProxy();
  SyncThreads(1 + group, 128);
}

template <typename T, int kDim>
__device__ inline void IssueScores(std::uint32_t queries, std::uint32_t keys, float (&s)[64]) {
  using Shared = PrefillShared<kDim>;
  Pin(s);
  BeginProducts();
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step) {
    const int half = step / 4, within = step % 4 * 32;
    MultiplyScores<T>(s, TileDescriptor(queries + half * Shared::kQueryHalfBytes + within, 16),
                      TileDescriptor(keys + half * Shared::kTileHalfBytes + within, 16), step != 0);
  }
  CommitProducts();
}

template <typename T, int kDim>
__device__ inline void IssueValues(std::uint32_t values, std::uint32_t (&p)[8][4],
                                   float (&out)[kDim / 2]) {
  using Shared = PrefillShared<kDim>;
  Pin(out);
#pragma unroll
  for (int step = 0; step < 8; ++step) Pin(p[step]);
  BeginProducts();
#pragma unroll
  for (int step = 0; step < 8; ++step) {
    MultiplyValues<T>(out, p[step],
                      TileDescriptor(values + step * 16 * 128, Shared::kTileHalfBytes));
  }
  CommitProducts();
}

struct PrefillSoftmax {
  float largest[2] = {-INFINITY, -INFINITY};
  float total[2] = {0, 0};  // of this thread's keys alone
  float rescale[2] = {1, 1};
};

// Scores of the tile that starts at `first_key` become weights; keys past a row's position have
// none.
__device__ inline void WeighScores(float (&s)[64], const PrefillRows& rows, int first_key,
                                   float factor, PrefillSoftmax& softmax) {
  const int column = first_key + threadIdx.x % 4 * 2;
  if (first_key + kPrefillKeys - 1 > min(rows.position[0], rows.position[1])) {
#pragma unroll
    for (int i = 0; i < 64; ++i) {
      if (column + i / 4 * 8 + i % 2 > rows.position[i / 2 % 2]) s[i] = -INFINITY;
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float most = softmax.largest[half];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      most = fmaxf(most, fmaxf(s[4 * i + 2 * half], s[4 * i + 2 * half + 1]));
    }
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 2));
    softmax.rescale[half] = Exp2((softmax.largest[half] - most) * factor);
    softmax.largest[half] = most;
    const float shift = most * factor;
    float total = softmax.total[half] * softmax.rescale[half];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
#pragma unroll
      for (int j = 4 * i + 2 * half; j < 4 * i + 2 * half + 2; ++j) {
        s[j] = Exp2(s[j] * factor - shift);
        total += s[j];
      }
    }
    softmax.total[half] = total;
  }
}

template <typename T>
__device__ inline void PackWeights(const float (&s)[64], std::uint32_t (&p)[8][4]) {
#pragma unroll
  for (int step = 0; step < 8; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int from = 8 * step + i / 2 * 4 + i % 2 * 2;
      p[step][i] = Pack<T>(s[from], s[from + 1]);
    }
  }
}

// Zeroes the rows of a tile of V that hold no key of the item: what lies there may be NaN, which no
// weight of zero would silence. The other warpgroup does the same, which does no harm.
template <int kDim>
__device__ inline void ClearValues(std::uint32_t values, int first_row, int group) {
  using Shared = PrefillShared<kDim>;
  constexpr int kChunks = kDim / 8;
  for (int i = first_row * kChunks + threadIdx.x % 128; i < kPrefillKeys * kChunks; i += 128) {
    const int row = i / kChunks, chunk = i % kChunks;
    const std::uint32_t to =
        values + chunk / 8 * Shared::kTileHalfBytes + row * 128 + chunk % 8 * 16;
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(0) : "memory");
  }
  FenceAsyncProxy();
  SyncThreads(1 + group, 128);
}

template <typename T, int kDim>
__device__ inline void ComputeRows(const AttentionLaunch& a, const AttentionWorkItem& item,
                                   const SequenceLaunch& sequence, int group,
                                   std::uint32_t shared) {
  using Shared = PrefillShared<kDim>;
  const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
  StoreQueries<T, kDim>(a, item, sequence, group, shared);
  const PrefillRows rows =
      RowsOf(a, item, sequence, group * Shared::kGroupRows + warp * 16 + lane / 4);
  const std::uint32_t queries = shared + group * Shared::kQueryBytes;
  const float factor = a.scale * 1.44269504f;  // log2(e)
  const int num_tiles = (item.num_keys + kPrefillKeys - 1) / kPrefillKeys;
  const auto keys_of = [&](int tile) {
    const int stage = tile % kPrefillStages;
    WaitBarrier(FullBarrier<kDim>(shared, 0, stage), tile / kPrefillStages % 2);
    return shared + Shared::kKeys + stage * Shared::kTileBytes;
  };
  const auto values_of = [&](int tile) {
    const int stage = tile % kPrefillStages;
    WaitBarrier(FullBarrier<kDim>(shared, 1, stage), tile / kPrefillStages % 2);
    const std::uint32_t values = shared + Shared::kValues + stage * Shared::kTileBytes;
    const int num_keys = item.num_keys - tile * kPrefillKeys;
    if (num_keys < kPrefillKeys) ClearValues<kDim>(values, num_keys, group);
    return values;
  };
  const auto release = [&](int which, int tile) {
    if (lane == 0) Arrive(EmptyBarrier<kDim>(shared, which, tile % kPrefillStages));
  };

  float out[kDim / 2] = {};
  float s[64];
  std::uint32_t p[8][4];
  PrefillSoftmax softmax;
  IssueScores<T, kDim>(queries, keys_of(0), s);
  WaitProducts<0>();
  Pin(s);
  release(0, 0);
  WeighScores(s, rows, 0, factor, softmax);
  PackWeights<T>(s, p);
  for (int tile = 1; tile < num_tiles; ++tile) {
    IssueScores<T, kDim>(queries, keys_of(tile), s);
    IssueValues<T, kDim>(values_of(tile - 1), p, out);
    WaitProducts<1>();
    Pin(s);
    release(0, tile);
    WeighScores(s, rows, tile * kPrefillKeys, factor, softmax);
    WaitProducts<0>();
    Pin(out);
    release(1, tile - 1);
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) out[i] *= softmax.rescale[i / 2 % 2];
    PackWeights<T>(s, p);
  }
  IssueValues<T, kDim>(values_of(num_tiles - 1), p, out);
  WaitProducts<0>();
  Pin(out);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float total = softmax.total[half];
    total += __shfl_xor_sync(kAllLanes, total, 1);
    total += __shfl_xor_sync(kAllLanes, total, 2);
    if (!rows.exists[half]) continue;
    const std::int64_t to = rows.out[half] + lane % 4 * 2;
    const float inverse = 1.0f / total;
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) {
      const float x = out[4 * i + 2 * half] * inverse, y = out[4 * i + 2 * half + 1] * inverse;
      if (a.out_dtype == DType::kF32) {
        *reinterpret_cast<float2*>(static_cast<float*>(a.out) + to + 8 * i) = {x, y};
      } else {
        *reinterpret_cast<std::uint32_t*>(static_cast<__nv_bfloat16*>(a.out) + to + 8 * i) =
            Pack<__nv_bfloat16>(x, y);
      }
    }
  }
}

// Grid: items, the longest first.
template <typename T, int kDim>
__global__ void __launch_bounds__(kPrefillThreads, 1)
    PrefillAll(const __grid_constant__ AttentionLaunch a,
               const __grid_constant__ PrefillMaps maps) {
  extern __shared__ unsigned char shared_bytes[];
  const std::uint32_t shared = (SharedAddress(shared_bytes) + 1023) / 1024 * 1024;
  const AttentionWorkItem item = a.items[blockIdx.x];
  const SequenceLaunch sequence = a.sequences[item.sequence];
  if (threadIdx.x == 0) {
    for (int which = 0; which < 2; ++which) {
      for (int stage = 0; stage < kPrefillStages; ++stage) {
        InitBarrier(FullBarrier<kDim>(shared, which, stage), 1);
        InitBarrier(EmptyBarrier<kDim>(shared, which, stage), 8);  // the computing warps
      }
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    FenceAsyncProxy();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    GiveRegisters<40>();
    if (threadIdx.x < 32) {
      LoadTiles<kDim>(a, maps, item, a.block_tables + sequence.block_table_start, shared);
    }
  } else {
    TakeRegisters<232>();
    ComputeRows<T, kDim>(a, item, sequence, static_cast<int>(threadIdx.x) / 128 - 1, shared);
  }
}

template <typename T, int kDim>
cudaError_t LaunchPrefill(const AttentionLaunch& a, const PrefillMaps& maps, cudaStream_t stream) {
  if (a.num_items == 0) return cudaSuccess;
  constexpr int kBytes = PrefillShared<kDim>::kBytes;
  const cudaError_t error = cudaFuncSetAttribute(
      PrefillAll<T, kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  PrefillAll<T, kDim>
      <<<static_cast<unsigned>(a.num_items), kPrefillThreads, kBytes, stream>>>(a, maps);
  return cudaGetLastError();
}

}  // namespace thresher
