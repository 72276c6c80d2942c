// The CUDA twin of TransformerOps::RotateAndAppend.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/device/dtype.h"

namespace thresher {

// Device memory throughout; shapes as in TransformerOps::RotateAndAppend.
struct RotateAndAppendLaunch {
  const void* qkv = nullptr;
  const float* q_weight = nullptr;  // null: no norm
  const float* k_weight = nullptr;
  const float* cos_sin = nullptr;
  const std::int32_t* positions = nullptr;
  const std::int64_t* slot_mapping = nullptr;
  void* q = nullptr;
  void* k_cache = nullptr;
  void* v_cache = nullptr;
  float* k_sums = nullptr;  // null: nobody keeps them
  float* v_sums = nullptr;
  DType qkv_dtype = DType::kF32, q_dtype = DType::kF32, kv_dtype = DType::kBF16;
  float epsilon = 0;
  int num_rows = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0, rotary_dim = 0, block_size = 0;
};

cudaError_t LaunchRotateAndAppend(const RotateAndAppendLaunch& arguments, cudaStream_t stream);

}  // namespace thresher
