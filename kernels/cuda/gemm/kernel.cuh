// The product with few rows of input, which is a stream of the weight: two warps load units of the
// weight and of x through the copy engine into a ring, warpgroups multiply them with the weight as
// the left operand, so that the rows of x are the product's columns (8 at least). The ring fills
// with weights while earlier kernels of the stream still run (programmatic dependent launch).
//
// Blocks of a cluster that share a tile send their sums to the first one's shared memory, which
// adds them in order of columns: a tile has one order of sums.
//
// Shared memory: stages of two boxes of [64 · kGroups] rows of the weight, then two of [kBatch]
// rows of x, of 64 columns with the 128-byte swizzle, from a multiple of 1,024 bytes on; the full
// barriers, the empty ones, that of the sums; the sums of ranks 1, 2, … [kBatch / 8][128 · kGroups
// threads] of 16 bytes.
#pragma once

#include "kernels/cuda/attention/all/warpgroup_products.cuh"
#include "kernels/cuda/device_math.cuh"
#include "kernels/cuda/gemm/launch.h"
#include "kernels/cuda/overlapped_launch.cuh"

namespace thresher {

// d [64, 8 · count] (+)= a [64, 16] · b [16, 8 · count], operands in shared memory with the summed
// dimension contiguous; layout as in warpgroup_products.cuh. `adds` 0: d is overwritten.
__device__ inline void MultiplyFew(float (&d)[4], std::uint64_t a, std::uint64_t b, int adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(a), "l"(b), "r"(adds));
}
__device__ inline void MultiplyFew(float (&d)[8], std::uint64_t a, std::uint64_t b, int adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, 0, 0;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7])
      : "l"(a), "l"(b), "r"(adds));
}
__device__ inline void MultiplyFew(float (&d)[16], std::uint64_t a, std::uint64_t b, int adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "%16, %17, p, 1, 1, 0, 0;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15])
      : "l"(a), "l"(b), "r"(adds));
}
__device__ inline void MultiplyFew(float (&d)[32], std::uint64_t a, std::uint64_t b, int adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, p, 1, 1, 0, 0;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(adds));
}

// The ring of a block and the place in it of the next unit.
template <int kGroups, int kBatch>
class SkinnyRing {
 public:
  static constexpr int kWeightBox = 64 * kGroups * 128, kInputBox = kBatch * 128;
  static constexpr int kBoxes = kSkinnyDepth / 64;
  static constexpr int kStageBytes = SkinnyStageBytes(kGroups, kBatch);

  __device__ SkinnyRing(std::uint32_t shared, int stages)
      : shared_(shared), barriers_(shared + stages * kStageBytes), stages_(stages) {}

  __device__ std::uint32_t weight() const { return shared_ + stage_ * kStageBytes; }
  __device__ std::uint32_t x() const { return weight() + kBoxes * kWeightBox; }
  __device__ std::uint32_t full() const { return barriers_ + stage_ * 8; }
  __device__ std::uint32_t empty() const { return full() + stages_ * 8; }
  __device__ std::uint32_t sum_barrier() const { return barriers_ + 2 * stages_ * 8; }
  __device__ std::uint32_t sums() const { return sum_barrier() + 16; }
  __device__ std::uint32_t round() const { return round_; }
  __device__ void Advance() {
    if (++stage_ == stages_) stage_ = 0, round_ ^= 1;
  }

  __device__ void InitStage() const {
    InitBarrier(full(), 2);  // those who load the weight and x
    InitBarrier(empty(), 4 * kGroups);
    ShowBarriers();
  }
  __device__ void InitSums(int bytes) const {
    InitBarrier(sum_barrier(), 1);
    ArriveExpecting(sum_barrier(), static_cast<std::uint32_t>(bytes));
    ShowBarriers();
  }

 private:
  // To the copy engine and to other blocks.
  __device__ static void ShowBarriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    FenceAsyncProxy();
  }

  std::uint32_t shared_, barriers_;
  int stages_, stage_ = 0;
  std::uint32_t round_ = 0;
};

// A walk through the block's units: of each of its tiles those of its rank.
struct SkinnyWalk {
  int tile, end_tile, unit, first_unit, end_unit;

  __device__ explicit SkinnyWalk(const SkinnyLaunch& a) {
    const int block = static_cast<int>(blockIdx.x), splits = a.config.splits;
    const int num_clusters = static_cast<int>(gridDim.x) / splits;
    tile = FirstSkinnyTile(a.work.num_tiles, num_clusters, block / splits);
    end_tile = FirstSkinnyTile(a.work.num_tiles, num_clusters, block / splits + 1);
    unit = first_unit = FirstSkinnyUnit(a.work.tile_units, splits, block % splits);
    end_unit = FirstSkinnyUnit(a.work.tile_units, splits, block % splits + 1);
  }
  __device__ bool IsOver() const { return tile == end_tile || first_unit == end_unit; }
  __device__ void Advance() {
    if (++unit == end_unit) unit = first_unit, ++tile;
  }
};

// Of a whole warp, one thread: then the compiler knows that what it hands to the copy engine is one
// value.
__device__ inline bool IsElected() {
  std::uint32_t elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(elected));
  return elected != 0;
}

// A box that nobody reads again soon: it is the first to leave the second-level cache, where x
// stays.
__device__ inline void CopyPassingBox(std::uint32_t to, const void* map, int x, int y,
                                      std::uint32_t barrier) {
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier), "l"(policy)
      : "memory");
}

template <int kGroups, int kBatch>
__device__ inline void LoadWeight(const SkinnyLaunch& a, const SkinnyWalk& walk,
                                  const SkinnyRing<kGroups, kBatch>& ring) {
  using Ring = SkinnyRing<kGroups, kBatch>;
  ArriveExpecting(ring.full(), Ring::kBoxes * Ring::kWeightBox);
#pragma unroll
  for (int box = 0; box < Ring::kBoxes; ++box) {
    CopyPassingBox(ring.weight() + box * Ring::kWeightBox, &a.weight,
                   walk.unit * kSkinnyDepth + 64 * box, walk.tile * 64 * kGroups, ring.full());
  }
}

template <int kGroups, int kBatch>
__device__ inline void LoadInput(const SkinnyLaunch& a, const SkinnyWalk& walk,
                                 const SkinnyRing<kGroups, kBatch>& ring) {
  using Ring = SkinnyRing<kGroups, kBatch>;
  ArriveExpecting(ring.full(), Ring::kBoxes * Ring::kInputBox);
#pragma unroll
  for (int box = 0; box < Ring::kBoxes; ++box) {
    CopyBox(ring.x() + box * Ring::kInputBox, &a.x, walk.unit * kSkinnyDepth + 64 * box, 0,
            ring.full());
  }
}

// Writes a warpgroup's part of a tile: rows `first` to first + 63 of the weight. Lanes that have
// neighbouring rows exchange sums, so that each has two rows of one column for `store` (element
// index, sum, sum of the next row).
template <int kBatch, typename Store>
__device__ inline void StorePairs(const SkinnyLaunch& a, int first, const float (&d)[kBatch / 2],
                                  const Store& store) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
  const int odd = lane / 4 % 2, first_column = 2 * (lane % 4) + odd;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + 16 * warp + lane / 4 + 8 * half, pair = row - odd;
    const float bias = a.bias != nullptr && row < a.rows ? a.bias[row] : 0.0f;
    std::int64_t at = std::int64_t{first_column} * a.rows + pair;
#pragma unroll
    for (int i = 0; i < kBatch / 8; ++i, at += std::int64_t{8} * a.rows) {
      const float left = d[4 * i + 2 * half] + bias, right = d[4 * i + 2 * half + 1] + bias;
      const float theirs = __shfl_xor_sync(kAllLanes, odd ? left : right, 4);
      if (first_column + 8 * i < a.n && pair < a.rows) {
        store(at, odd ? theirs : left, odd ? right : theirs, pair + 1 < a.rows);
      }
    }
  }
}

template <int kBatch>
__device__ inline void StoreSums(const SkinnyLaunch& a, int first, const float (&d)[kBatch / 2]) {
  if (a.rows % 2 != 0) {
    StorePairs<kBatch>(a, first, d, [&](std::int64_t at, float low, float high, bool has_high) {
      StoreAs(a.out_dtype, a.out, at, low);
      if (has_high) StoreAs(a.out_dtype, a.out, at + 1, high);
    });
  } else if (a.out_dtype == DType::kF32) {
    auto* const out = static_cast<float*>(a.out);
    StorePairs<kBatch>(a, first, d, [&](std::int64_t at, float low, float high, bool) {
      *reinterpret_cast<float2*>(out + at) = {low, high};
    });
  } else {
    auto* const out = static_cast<__nv_bfloat16*>(a.out);
    StorePairs<kBatch>(a, first, d, [&](std::int64_t at, float low, float high, bool) {
      *reinterpret_cast<std::uint32_t*>(out + at) = Pack<__nv_bfloat16>(low, high);
    });
  }
}

// Sends a thread's sums to the cluster's first block.
template <int kGroups, int kBatch>
__device__ inline void SendSums(const SkinnyRing<kGroups, kBatch>& ring, int rank,
                                const float (&d)[kBatch / 2]) {
  std::uint32_t to, barrier;
  const std::uint32_t own =
      ring.sums() + (((rank - 1) * (kBatch / 8)) * 128 * kGroups + threadIdx.x) * 16;
  asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(to) : "r"(own));
  asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(barrier) : "r"(ring.sum_barrier()));
#pragma unroll
  for (int i = 0; i < kBatch / 8; ++i) {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
        "[%5];" ::"r"(to + i * 128 * kGroups * 16),
        "f"(d[4 * i]), "f"(d[4 * i + 1]), "f"(d[4 * i + 2]), "f"(d[4 * i + 3]), "r"(barrier)
        : "memory");
  }
}

// Adds what the other blocks have sent.
template <int kGroups, int kBatch>
__device__ inline void AddSums(const SkinnyRing<kGroups, kBatch>& ring, int splits,
                               float (&d)[kBatch / 2]) {
  WaitBarrier(ring.sum_barrier(), 0);
  for (int rank = 1; rank < splits; ++rank) {
#pragma unroll
    for (int i = 0; i < kBatch / 8; ++i) {
      const std::uint32_t from =
          ring.sums() + (((rank - 1) * (kBatch / 8) + i) * 128 * kGroups + threadIdx.x) * 16;
      float x, y, z, w;
      asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(x), "=f"(y), "=f"(z), "=f"(w)
                   : "r"(from)
                   : "memory");
      d[4 * i] += x, d[4 * i + 1] += y, d[4 * i + 2] += z, d[4 * i + 3] += w;
    }
  }
}

// Multiplies the block's units. Warpgroup g has rows 64 g to 64 g + 63 of each tile.
template <int kGroups, int kBatch>
__device__ inline void MultiplyUnits(const SkinnyLaunch& a, const SkinnyWalk& walk,
                                     SkinnyRing<kGroups, kBatch> ring) {
  using Ring = SkinnyRing<kGroups, kBatch>;
  const int group = threadIdx.x / 128, lane = threadIdx.x % 32;
  for (int tile = walk.tile; tile < walk.end_tile; ++tile) {
    float d[kBatch / 2] = {};
    std::uint32_t behind = 0;  // the empty barrier of the unit before
    for (int unit = walk.first_unit; unit < walk.end_unit; ++unit) {
      WaitBarrier(ring.full(), ring.round());
      Pin(d);
      BeginProducts();
#pragma unroll
      for (int box = 0; box < Ring::kBoxes; ++box) {
        const std::uint64_t weight =
            TileDescriptor(ring.weight() + box * Ring::kWeightBox + group * 64 * 128, 16);
        const std::uint64_t x = TileDescriptor(ring.x() + box * Ring::kInputBox, 16);
#pragma unroll
        for (int step = 0; step < 4; ++step) MultiplyFew(d, weight + 2 * step, x + 2 * step, 1);
      }
      CommitProducts();
      WaitProducts<1>();
      if (behind != 0 && lane == 0) Arrive(behind);
      behind = ring.empty();
      ring.Advance();
    }
    WaitProducts<0>();
    Pin(d);
    if (behind != 0 && lane == 0) Arrive(behind);
    const int rank = static_cast<int>(blockIdx.x) % a.config.splits;
    if (rank != 0) {
      SendSums(ring, rank, d);
      continue;
    }
    if (a.config.splits > 1) AddSums(ring, a.config.splits, d);
    StoreSums<kBatch>(a, (tile * kGroups + group) * 64, d);
  }
}

// kGroups warpgroups that multiply, a warp that loads the weight, and one that loads x.
template <int kGroups, int kBatch>
__global__ void __launch_bounds__(128 * kGroups + 64)
    SkinnyProduct(const __grid_constant__ SkinnyLaunch a) {
  extern __shared__ unsigned char shared_bytes[];
  LetLaterKernelsStart();
  const std::uint32_t shared = (SharedAddress(shared_bytes) + 1023) / 1024 * 1024;
  SkinnyRing<kGroups, kBatch> ring(shared, a.stages);
  SkinnyWalk walk(a);
  const int warp = threadIdx.x / 32;
  // The first round of the ring needs nobody's leave, and starts before anybody is told of it.
  if (warp == 4 * kGroups) {
    for (int stage = 0; stage < a.stages && !walk.IsOver(); ++stage) {
      if (IsElected()) {
        ring.InitStage();
        LoadWeight(a, walk, ring);
      }
      walk.Advance();
      ring.Advance();
    }
  } else if (threadIdx.x == 0) {
    ring.InitSums(SkinnySumBytes(a.config, kBatch));
  }
  __syncthreads();
  const bool is_cluster = a.config.splits > 1;
  if (is_cluster) asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  if (warp == 4 * kGroups) {
    for (; !walk.IsOver(); walk.Advance(), ring.Advance()) {
      WaitBarrier(ring.empty(), ring.round() ^ 1);
      if (IsElected()) LoadWeight(a, walk, ring);
    }
  } else if (warp == 4 * kGroups + 1) {
    WaitForEarlierKernels();
    for (; !walk.IsOver(); walk.Advance(), ring.Advance()) {
      WaitBarrier(ring.empty(), ring.round() ^ 1);  // the first round waits for nobody
      if (IsElected()) LoadInput(a, walk, ring);
    }
  }
  // Every block's barriers are there before anybody sends sums.
  if (is_cluster) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (warp < 4 * kGroups) {
    WaitForEarlierKernels();
    MultiplyUnits<kGroups, kBatch>(a, walk, ring);
  }
}

template <int kGroups, int kBatch>
cudaError_t LaunchSkinnyProduct(const SkinnyLaunch& a, cudaStream_t stream) {
  const int bytes = SkinnySharedBytes(a.config, kBatch, a.stages);
  const cudaError_t error = cudaFuncSetAttribute(
      SkinnyProduct<kGroups, kBatch>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess) return error;
  return LaunchOverlapped(SkinnyProduct<kGroups, kBatch>,
                          {.grid = dim3(static_cast<unsigned>(a.work.num_blocks)),
                           .block = dim3(128 * kGroups + 64),
                           .cluster = static_cast<unsigned>(a.config.splits),
                           .shared_bytes = static_cast<std::size_t>(bytes)},
                          stream, a);
}

}  // namespace thresher
