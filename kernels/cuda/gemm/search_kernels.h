// The kernels that a search needs beside products.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace thresher {

// bf16 numbers about 1: zeros would flatter a product, as they spare power.
cudaError_t LaunchFillRandom(void* to, std::int64_t count, cudaStream_t stream);

// What stands between two products of a step: a kernel that waits for the one before it. `memory`
// has 32 floats.
cudaError_t LaunchInBetween(float* memory, cudaStream_t stream);

}  // namespace thresher
