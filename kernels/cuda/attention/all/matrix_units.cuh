// The instructions that the attention kernels are built from, and the fragments they take. PTX ISA
// 8.5, chapters "Warp Level Matrix Multiply-Accumulate" and "Asynchronous Warpgroup Level Matrix
// Instructions". T is __nv_bfloat16 or __half.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/device/dtype.h"

namespace thresher {

template <typename T>
inline constexpr bool kIsBf16 = std::is_same_v<T, __nv_bfloat16>;

// Two numbers in one register, the first one low.
template <typename T>
__device__ inline std::uint32_t Pack(float low, float high) {
  if constexpr (kIsBf16<T>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const std::uint32_t&>(pair);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const std::uint32_t&>(pair);
  }
}

// Two neighbours of an array of f32 or bf16, rounded to T. The first has an even index.
template <typename T>
__device__ inline std::uint32_t LoadPair(DType dtype, const void* array, std::int64_t index) {
  if (dtype == DType::kF32) {
    const float2 pair = *reinterpret_cast<const float2*>(static_cast<const float*>(array) + index);
    return Pack<T>(pair.x, pair.y);
  }
  const auto pair =
      *reinterpret_cast<const __nv_bfloat162*>(static_cast<const __nv_bfloat16*>(array) + index);
  if constexpr (kIsBf16<T>) return reinterpret_cast<const std::uint32_t&>(pair);
  const float2 wide = __bfloat1622float2(pair);
  return Pack<T>(wide.x, wide.y);
}

// Eight of them; the first index is a multiple of eight.
template <typename T>
__device__ inline uint4 LoadEight(DType dtype, const void* array, std::int64_t index) {
  if (kIsBf16<T> && dtype == DType::kBF16) {
    return *reinterpret_cast<const uint4*>(static_cast<const __nv_bfloat16*>(array) + index);
  }
  return {LoadPair<T>(dtype, array, index), LoadPair<T>(dtype, array, index + 2),
          LoadPair<T>(dtype, array, index + 4), LoadPair<T>(dtype, array, index + 6)};
}

// 2^x, off by 2^-22 of itself at most; 2^−infinity is 0 and 2^0 is 1.
__device__ inline float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline std::uint32_t SharedAddress(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// 16 bytes to shared memory; zeros if not `valid`.
__device__ inline void CopyAsync(std::uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(valid ? 16 : 0)
               : "memory");
}
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until all but the newest kPending groups have arrived.
template <int kPending>
__device__ inline void WaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Four 8x8 matrices; lanes 8 i to 8 i + 7 have the addresses of the rows of matrix i.
__device__ inline void LoadMatrices(std::uint32_t address, std::uint32_t (&m)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}
__device__ inline void LoadMatricesTransposed(std::uint32_t address, std::uint32_t (&m)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}

// d [16, 8] += a [16, 16] · b [16, 8]. Lane 4 g + t has of d rows g and g + 8, columns 2 t and
// 2 t + 1.
template <typename T>
__device__ inline void MultiplyWarp(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                    std::uint32_t b1) {
  if constexpr (kIsBf16<T>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// Barriers in shared memory that count arrivals and bytes.
__device__ inline void InitBarrier(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void Arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void ArriveExpecting(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ inline void WaitBarrier(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// A box of the map, from column x and row y, by the copy engine; its bytes arrive at `barrier`.
__device__ inline void CopyBox(std::uint32_t to, const void* map, int x, int y,
                               std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}

// Ordinary stores to shared memory before this are seen by the matrix units and the copy engine.
__device__ inline void FenceAsyncProxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void SyncThreads(int barrier, int num_threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(num_threads) : "memory");
}

template <int kRegisters>
__device__ inline void GiveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace thresher
