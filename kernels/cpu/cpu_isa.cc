// Finds what the machine gives the CPU twin: its widest instruction set and its cores.
#include <sched.h>

#include <algorithm>

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

int NumUsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace thresher
