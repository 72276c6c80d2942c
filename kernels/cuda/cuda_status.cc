#include "kernels/cuda/cuda_status.h"

#include "absl/strings/str_cat.h"

namespace thresher {

absl::Status CudaStatus(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message =
      absl::StrCat(what, ": ", cudaGetErrorName(error), ", ", cudaGetErrorString(error));
  return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(message)
                                            : absl::UnavailableError(message);
}

}  // namespace thresher
