#include "kernels/backend.h"

#include <string>

#include "kernels/cpu/cpu_backend.h"
#if THRESHER_CUDA
#include <dlfcn.h>

#include "kernels/cuda/plugin.h"
#endif

namespace thresher {
namespace {

#if THRESHER_CUDA
// The plugin stays loaded: its backends' code is in it.
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(int ordinal,
                                                           const BackendOptions& options) {
  void* plugin = dlopen(kCudaPlugin, RTLD_NOW | RTLD_LOCAL);
  void* create = plugin == nullptr ? nullptr : dlsym(plugin, kCreateCudaBackendSymbol);
  if (create == nullptr) {
    return absl::FailedPreconditionError(std::string("the CUDA plugin cannot be loaded: ") +
                                         dlerror());
  }
  absl::StatusOr<std::unique_ptr<Backend>> backend = absl::InternalError("not called");
  reinterpret_cast<CreateCudaBackendFunction*>(create)(ordinal, options, &backend);
  return backend;
}
#else
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(int, const BackendOptions&) {
  return absl::UnimplementedError("this build has no CUDA ops; start with the CPU device instead");
}
#endif

}  // namespace

// The CPU covers every mechanism; the plugin's kernel table has this one.
bool CarriesOut(DeviceKind kind, AttentionMechanism mechanism) {
  return kind == DeviceKind::kCpu || mechanism == AttentionMechanism::kAll;
}

absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(DeviceKind kind, int ordinal,
                                                       const BackendOptions& options) {
  if (kind == DeviceKind::kCuda) return CreateCudaBackend(ordinal, options);
  if (ordinal != 0) {
    return absl::NotFoundError("there is no CPU device " + std::to_string(ordinal) +
                               "; the only one is 0");
  }
  return CreateCpuBackend(options);
}

}  // namespace thresher
