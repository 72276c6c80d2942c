#include "tests/support/gemm_reference.h"

#include <cmath>

#include "kernels/cpu/dequantize.h"
#include "kernels/cpu/half_float.h"

namespace thresher {
namespace {

std::size_t Index(std::int64_t value) { return static_cast<std::size_t>(value); }

// One stored row, all columns.
struct StoredRow {
  std::vector<float> values;
  std::vector<double> magnitudes;
};

StoredRow ReadRow(const WeightSource& source, std::int64_t stored) {
  const int block = BlockElements(source.format);
  const std::byte* bytes =
      source.bytes + stored * (source.cols / block) * BlockBytes(source.format);
  StoredRow row{std::vector<float>(Index(source.cols)), std::vector<double>(Index(source.cols))};
  DequantizeRow(source.format, bytes, 0, source.cols, row.values.data());
  const int group = GroupsOf(source.format).size;
  if (group == 0) {
    for (std::size_t i = 0; i < row.values.size(); ++i) {
      row.magnitudes[i] = std::abs(static_cast<double>(row.values[i]));
    }
    return row;
  }
  std::vector<std::int8_t> integers(Index(source.cols));
  std::vector<float> scales(Index(source.cols / group)), minima(Index(source.cols / group));
  DecodeGroups(source.format, bytes, source.cols / block, integers.data(), scales.data(),
               minima.data());
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    const std::size_t at = i / Index(group);
    row.magnitudes[i] = std::abs(static_cast<double>(scales[at]) * integers[i]) +
                        std::abs(static_cast<double>(minima[at]));
  }
  return row;
}

bool IsRounded(const WeightSource& source, std::int64_t num_cols, Bf16Rounding rounding) {
  const int group = GroupsOf(source.format).size;
  const bool whole = group != 0 && source.first_col % group == 0 && num_cols % group == 0;
  return rounding == Bf16Rounding::kAll || (rounding == Bf16Rounding::kPlain && !whole);
}

void AppendPart(const WeightSource& source, Bf16Rounding rounding, ReferenceWeight& weight) {
  const std::int64_t cols = source.num_cols == 0 ? source.cols : source.num_cols;
  const bool rounds = IsRounded(source, cols, rounding);
  const std::int64_t rows =
      source.row_order.empty() ? source.rows : static_cast<std::int64_t>(source.row_order.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    const StoredRow row =
        ReadRow(source, source.row_order.empty() ? i : source.row_order[Index(i)]);
    for (std::int64_t col = source.first_col; col < source.first_col + cols; ++col) {
      const float value = row.values[Index(col)];
      weight.values.push_back(rounds ? Bf16ToFloat(FloatToBf16(value)) : value);
      // Rounded weights are multiplied as such, not as scale and minimum.
      weight.magnitudes.push_back(rounds ? std::abs(weight.values.back())
                                         : row.magnitudes[Index(col)]);
    }
  }
  weight.rows += rows;
  weight.cols = cols;
}

}  // namespace

ReferenceWeight MakeReference(std::span<const WeightSource> parts, Bf16Rounding rounding) {
  ReferenceWeight weight;
  for (const WeightSource& part : parts) AppendPart(part, rounding, weight);
  return weight;
}

ReferenceProduct MultiplyReference(const ReferenceWeight& weight, std::span<const float> x,
                                   std::int64_t num_rows, std::span<const float> bias) {
  ReferenceProduct product;
  for (std::int64_t m = 0; m < num_rows; ++m) {
    for (std::int64_t n = 0; n < weight.rows; ++n) {
      double value = bias.empty() ? 0.0 : static_cast<double>(bias[Index(n)]);
      double magnitude = std::abs(value);
      for (std::int64_t k = 0; k < weight.cols; ++k) {
        const double input = static_cast<double>(x[Index(m * weight.cols + k)]);
        value += input * weight.values[Index(n * weight.cols + k)];
        magnitude += std::abs(input) * weight.magnitudes[Index(n * weight.cols + k)];
      }
      product.values.push_back(value);
      product.magnitudes.push_back(magnitude);
    }
  }
  return product;
}

double RelativeBound(std::int64_t cols) {
  return (1.125 * static_cast<double>(cols) + 8.0) * 0x1p-24 * (1.0 + 0x1p-9);
}

}  // namespace thresher
