// Finds the widest instruction set that the CPU twin has code for.
#include "kernels/backend.h"

namespace thresher {

absl::StatusOr<CpuIsa> DetectCpuIsa() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("f16c")) {
    return absl::FailedPreconditionError(
        "this CPU lacks AVX2, FMA or F16C, which the CPU backend needs; use an x86-64 CPU of 2013 "
        "or later, or a CUDA device");
  }
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq")) {
    return CpuIsa::kAvx2;
  }
  if (!__builtin_cpu_supports("avx512vbmi") || !__builtin_cpu_supports("avx512bf16")) {
    return CpuIsa::kAvx512;
  }
  return CpuIsa::kAvx512Bf16;
}

}  // namespace thresher
