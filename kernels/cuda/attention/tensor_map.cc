#include "kernels/cuda/attention/tensor_map.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace thresher {

absl::Status FindEncodeTensorMap(EncodeTensorMapFunction*& encode) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                             12000, cudaEnableDefault, &result);
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess || function == nullptr) {
    return absl::FailedPreconditionError(
        "the CUDA driver has no cuTensorMapEncodeTiled; install a driver for CUDA 12 or newer");
  }
  encode = reinterpret_cast<EncodeTensorMapFunction*>(function);
  return absl::OkStatus();
}

absl::Status EncodeCacheMap(EncodeTensorMapFunction* encode, const TensorView& cache, int box_rows,
                            CUtensorMap& map) {
  const auto head_dim = static_cast<cuuint64_t>(cache.shape[3]);
  const cuuint64_t size[2] = {
      head_dim, static_cast<cuuint64_t>(cache.shape[0] * cache.shape[1] * cache.shape[2])};
  const cuuint64_t row_bytes[1] = {head_dim * 2};
  const cuuint32_t box[2] = {64, static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  const CUresult result =
      encode(&map,
             cache.dtype == DType::kBF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                         : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
             2, cache.data, size, row_bytes, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  return absl::InvalidArgumentError("attention: the copy engine cannot read cache " +
                                    ToString(cache) + ": error " +
                                    std::to_string(static_cast<int>(result)));
}

}  // namespace thresher
