// CPU backends for tests that run with every instruction set that the machine has.
#pragma once

#include <memory>
#include <string>

#include "kernels/backend.h"

namespace thresher {

struct CpuVariant {
  CpuIsa isa = CpuIsa::kAvx2;
  bool full_precision = false;
};

inline constexpr CpuVariant kCpuVariants[] = {{CpuIsa::kAvx2, false},
                                              {CpuIsa::kAvx512, false},
                                              {CpuIsa::kAvx512Bf16, false},
                                              {CpuIsa::kAvx512Bf16, true}};

// Whether this machine runs the variant; a test skips, loudly, if not.
bool MachineRuns(const CpuVariant& variant);

// Ends the process if there is none.
std::unique_ptr<Backend> MakeCpuBackend(const CpuVariant& variant, int num_threads = 1);

// "Avx2", "Avx512Bf16FullPrecision".
std::string NameOf(const CpuVariant& variant);

}  // namespace thresher
