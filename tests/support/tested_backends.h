// The backends that a test binary runs its kernel tests with: the CPU with each instruction set, or
// a GPU.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "kernels/backend.h"
#include "tests/support/cpu_backends.h"

namespace thresher {

struct BackendVariant {
  DeviceKind device = DeviceKind::kCpu;
  CpuVariant cpu = {};  // of a GPU only full_precision counts
  bool full_precision() const { return cpu.full_precision; }
};

// Each binary that has kernel tests defines its own.
std::span<const BackendVariant> TestedBackends();

// Whether this machine runs the variant; a test skips, loudly, if not. A GPU counts as there when
// its driver is, so that a plugin that cannot be loaded fails.
bool MachineRuns(const BackendVariant& variant);

// Tensors given to its ops and kernels are host memory on every device; see mirrored_backend.h.
// Ends the process if there is no such backend.
std::unique_ptr<Backend> MakeTestedBackend(const BackendVariant& variant, int num_threads = 1);

// "Avx512", "CudaFullPrecision".
std::string NameOf(const BackendVariant& variant);

// The type to which mechanism `all` rounds queries and weights in the kernel's row; f32: it does
// not.
DType ProductTypeOf(const BackendVariant& variant, const AttentionKey& key);

}  // namespace thresher
