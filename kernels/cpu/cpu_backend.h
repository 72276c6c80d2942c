// The CPU twin of a device: host memory, a team of threads, ops and attention kernels.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace thresher {

// Errors of CreateBackend for DeviceKind::kCpu.
absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const BackendOptions& options);

}  // namespace thresher
