// Rows of a generated weight, made where they are used.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/device/dtype.h"
#include "kernels/ops/packed_weight.h"

namespace thresher {

// out[i] = columns [first_col, first_col + cols) of stored row row_order[i], or of row i if
// row_order is null; the numbers of GenerateRow (kernels/cpu/generated_weight.h), bit by bit.
//   row_order [rows] in device memory or null, out [rows, cols] f32 or bf16
cudaError_t LaunchGenerateRows(const GeneratedNumbers& numbers, const std::int32_t* row_order,
                               std::int64_t rows, std::int64_t first_col, std::int64_t cols,
                               DType dtype, void* out, cudaStream_t stream);

}  // namespace thresher
