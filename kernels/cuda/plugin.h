// The one entry of the CUDA plugin, thresher_cuda.so: looked up by name after dlopen.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace thresher {

// Makes the backend of GPU `ordinal`. FailedPrecondition: no driver, or one too old for the
// runtime, or a GPU that this build has no code for. NotFound: no such GPU, with the number there
// are.
using CreateCudaBackendFunction = void(int ordinal, const BackendOptions& options,
                                       absl::StatusOr<std::unique_ptr<Backend>>* backend);
inline constexpr char kCudaPlugin[] = "thresher_cuda.so";
inline constexpr char kCreateCudaBackendSymbol[] = "thresher_create_cuda_backend";

}  // namespace thresher
