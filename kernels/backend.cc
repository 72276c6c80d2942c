#include "kernels/backend.h"

#include <string>

#include "kernels/cpu/cpu_backend.h"

namespace thresher {

absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(DeviceKind kind, int ordinal,
                                                       const BackendOptions& options) {
  if (kind == DeviceKind::kCuda) {
    return absl::UnimplementedError(
        "this build has no CUDA ops; start with the CPU device instead");
  }
  if (ordinal != 0) {
    return absl::NotFoundError("there is no CPU device " + std::to_string(ordinal) +
                               "; the only one is 0");
  }
  return CreateCpuBackend(options);
}

}  // namespace thresher
