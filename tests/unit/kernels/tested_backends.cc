// The CPU with every instruction set.
#include "tests/support/tested_backends.h"

#include <vector>

namespace thresher {

std::span<const BackendVariant> TestedBackends() {
  static const std::vector<BackendVariant> variants = [] {
    std::vector<BackendVariant> all;
    for (const CpuVariant& cpu : kCpuVariants) all.push_back({DeviceKind::kCpu, cpu});
    return all;
  }();
  return variants;
}

}  // namespace thresher
