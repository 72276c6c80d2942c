#include "kernels/cpu/generated_weight.h"
#include "kernels/cuda/device_math.cuh"
#include "kernels/cuda/generate_rows.h"

namespace thresher {
namespace {

constexpr int kThreads = 256;

struct Place {
  std::uint64_t seed;
  float unit;
  std::int64_t first_row, first_col, cols;
};

// A block makes a stretch of one row; a thread makes one group of columns, of which the first and
// the last may be wanted in part.
__global__ void GenerateRows(Place place, const std::int32_t* row_order, DType dtype, void* out) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t stored = row_order == nullptr ? row : row_order[row];
  const std::int64_t group = place.first_col / kGeneratedGroup +
                             static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  const auto integers = GeneratedIntegers(place.seed, place.first_row + stored, group);
  for (int lane = 0; lane < kGeneratedGroup; ++lane) {
    const std::int64_t col = group * kGeneratedGroup + lane - place.first_col;
    if (col < 0 || col >= place.cols) continue;
    const float value = __fmul_rn(static_cast<float>(integers[lane]), place.unit);
    StoreAs(dtype, out, row * place.cols + col, __bfloat162float(__float2bfloat16_rn(value)));
  }
}

}  // namespace

cudaError_t LaunchGenerateRows(const GeneratedNumbers& numbers, const std::int32_t* row_order,
                               std::int64_t rows, std::int64_t first_col, std::int64_t cols,
                               DType dtype, void* out, cudaStream_t stream) {
  const std::int64_t groups =
      (first_col + cols - 1) / kGeneratedGroup - first_col / kGeneratedGroup + 1;
  const dim3 grid(static_cast<unsigned>(rows),
                  static_cast<unsigned>((groups + kThreads - 1) / kThreads));
  const Place place = {numbers.seed, GeneratedUnit(numbers.deviation), numbers.first_row, first_col,
                       cols};
  GenerateRows<<<grid, kThreads, 0, stream>>>(place, row_order, dtype, out);
  return cudaGetLastError();
}

}  // namespace thresher
