// The one entry of the CUDA plugin, thresher_cuda.so: looked up by name after dlopen.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace thresher {

// Opens GPU `ordinal` into `device`. The device outlives every buffer and stream made by it.
// FailedPrecondition: no driver, or one too old for the runtime. NotFound: no such GPU, with the
// number there are.
using OpenCudaDeviceFunction = void(int ordinal, absl::StatusOr<std::unique_ptr<Device>>* device);
inline constexpr char kOpenCudaDeviceSymbol[] = "thresher_open_cuda_device";

}  // namespace thresher
