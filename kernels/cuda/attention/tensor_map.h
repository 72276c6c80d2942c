// Descriptions of cached keys and values for the copy engine.
#pragma once

#include <cuda.h>

#include "absl/status/status.h"
#include "kernels/device/tensor_view.h"

namespace thresher {

// The driver's function, looked up at run time, so that nothing links the driver.
using EncodeTensorMapFunction = decltype(cuTensorMapEncodeTiled);
// FailedPrecondition if the driver lacks it.
absl::Status FindEncodeTensorMap(EncodeTensorMapFunction*& encode);

// `cache` [num_blocks, num_kv_heads, block_size, head_dim] bf16 or f16 as rows of head_dim, in
// boxes of `box_rows` rows and 64 columns with the 128-byte swizzle.
absl::Status EncodeCacheMap(EncodeTensorMapFunction* encode, const TensorView& cache, int box_rows,
                            CUtensorMap& map);

}  // namespace thresher
