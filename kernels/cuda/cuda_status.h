// CUDA runtime errors as statuses.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "absl/status/status.h"

namespace thresher {

// OK, ResourceExhausted for memory, Unavailable for everything that means the device is lost or
// refused the work. `what` names the call or kernel.
absl::Status CudaStatus(cudaError_t error, std::string_view what);

}  // namespace thresher
