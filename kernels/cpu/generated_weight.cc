#include "kernels/cpu/generated_weight.h"

#include <algorithm>

#include "kernels/cpu/half_float.h"

namespace thresher {

void GenerateRow(const GeneratedNumbers& numbers, std::int64_t row, std::int64_t first_col,
                 std::int64_t num_cols, float* out) {
  const float unit = GeneratedUnit(numbers.deviation);
  const std::int64_t end_col = first_col + num_cols;
  for (std::int64_t col = first_col; col < end_col;) {
    const std::int64_t group = col / kGeneratedGroup;
    const std::array<std::int32_t, kGeneratedGroup> integers =
        GeneratedIntegers(numbers.seed, numbers.first_row + row, group);
    const std::int64_t end = std::min(end_col, (group + 1) * kGeneratedGroup);
    for (; col < end; ++col) {
      const auto lane = static_cast<std::size_t>(col - group * kGeneratedGroup);
      *out++ = Bf16ToFloat(FloatToBf16(static_cast<float>(integers[lane]) * unit));
    }
  }
}

}  // namespace thresher
