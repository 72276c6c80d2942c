// Launches of the ops that treat the rows of a matrix one by one. Plain pointers into device
// memory, checked by the caller; shapes as in TransformerOps.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/device/tensor_view.h"

namespace thresher {

// residual null: out = norm(x). Else residual += x, then out = norm(residual). x [n, c] f32 or
// bf16, residual [n, c] f32, out [n, c] f32 or bf16; a row's bits do not depend on where it lies.
cudaError_t LaunchRmsNorm(const TensorView& x, float* residual, const float* weight, float epsilon,
                          const TensorView& out, cudaStream_t stream);

// gate_up [n, 2 c], out [n, c]; f32 or bf16 each.
cudaError_t LaunchSiluMul(const TensorView& gate_up, const TensorView& out, cudaStream_t stream);

// out[i] = table[rows[i]]: table [any, c] f32 or bf16, rows [n], out [n, c] f32. A negative row is
// that of the token drawn[−1 − row].
cudaError_t LaunchGatherRows(const void* table, DType table_dtype, const std::int32_t* rows,
                             const std::int32_t* drawn, std::int64_t n, std::int64_t c, float* out,
                             cudaStream_t stream);

// out[i] = bias, for each row. bias [c] f32, out [n, c] f32 or bf16.
cudaError_t LaunchFillRows(const float* bias, const TensorView& out, cudaStream_t stream);

}  // namespace thresher
