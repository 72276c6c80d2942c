#include "tests/support/cpu_backends.h"

#include <utility>

namespace thresher {

bool MachineRuns(const CpuVariant& variant) { return DetectCpuIsa().value() >= variant.isa; }

std::unique_ptr<Backend> MakeCpuBackend(const CpuVariant& variant, int num_threads) {
  return CreateBackend(DeviceKind::kCpu, 0,
                       {.num_threads = num_threads,
                        .max_isa = variant.isa,
                        .full_precision = variant.full_precision})
      .value();
}

std::string NameOf(const CpuVariant& variant) {
  const char* const names[] = {"Avx2", "Avx512", "Avx512Bf16"};
  return std::string(names[static_cast<int>(variant.isa)]) +
         (variant.full_precision ? "FullPrecision" : "");
}

}  // namespace thresher
