#include "tests/support/tested_backends.h"

#include <dlfcn.h>

#include "tests/support/mirrored_backend.h"

namespace thresher {

bool MachineRuns(const BackendVariant& variant) {
  if (variant.device == DeviceKind::kCpu) return MachineRuns(variant.cpu);
  return dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != nullptr;
}

std::unique_ptr<Backend> MakeTestedBackend(const BackendVariant& variant, int num_threads) {
  if (variant.device == DeviceKind::kCpu) return MakeCpuBackend(variant.cpu, num_threads);
  return MirrorBackend(
      CreateBackend(DeviceKind::kCuda, 0, {.full_precision = variant.full_precision()}).value());
}

std::string NameOf(const BackendVariant& variant) {
  if (variant.device == DeviceKind::kCpu) return NameOf(variant.cpu);
  return variant.full_precision() ? "CudaFullPrecision" : "Cuda";
}

DType ProductTypeOf(const BackendVariant& variant, const AttentionKey& key) {
  if (variant.full_precision()) return DType::kF32;
  // The GPU's rows for one head size are those on the matrix units.
  if (variant.device == DeviceKind::kCuda) return key.head_dim == 0 ? DType::kF32 : key.kv_dtype;
  const bool rounds = variant.cpu.isa == CpuIsa::kAvx512Bf16 &&
                      key.phase == AttentionPhase::kPrefill && key.kv_dtype == DType::kBF16;
  return rounds ? DType::kBF16 : DType::kF32;
}

}  // namespace thresher
