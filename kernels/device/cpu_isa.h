// The instruction sets that the CPU twin has code for.
#pragma once

#include <cstdint>

namespace thresher {

// Each includes the ones before it. kAvx2: AVX2, FMA, F16C. kAvx512: F, BW, VL, DQ. kAvx512Bf16:
// VBMI and BF16.
enum class CpuIsa : std::uint8_t { kAvx2, kAvx512, kAvx512Bf16 };

}  // namespace thresher
