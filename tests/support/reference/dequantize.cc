#include "tests/support/reference/dequantize.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace thresher::testing {
namespace {

int Byte(const std::byte* bytes, int index) { return std::to_integer<int>(bytes[index]); }

template <typename T>
T Load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

double Half(const std::byte* bytes) {
  const int bits = Load<std::uint16_t>(bytes);
  const double sign = (bits >> 15) != 0 ? -1 : 1;
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  return sign *
         (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

// Blocks of 32: scale, offset where there is one, fifth bits where there are any, low four bits.
void Block32(const std::byte* block, bool has_offset, bool has_fifth, double* out) {
  const double scale = Half(block);
  block += 2;
  double offset = has_fifth ? -16 * scale : -8 * scale;
  if (has_offset) {
    offset = Half(block);
    block += 2;
  }
  std::uint32_t fifth = 0;
  if (has_fifth) {
    fifth = Load<std::uint32_t>(block);
    block += 4;
  }
  for (int i = 0; i < 32; ++i) {
    const int low = i < 16 ? Byte(block, i) & 15 : Byte(block, i - 16) >> 4;
    const int quant = low + static_cast<int>((fifth >> i) & 1) * 16;
    out[i] = scale * quant + offset;
  }
}

void BlockQ8(const std::byte* block, double* out) {
  for (int i = 0; i < 32; ++i) out[i] = Half(block) * Load<std::int8_t>(block + 2 + i);
}

// The eight 6-bit scales and offsets of Q4_K and Q5_K lie in 12 bytes.
void SixBit(const std::byte* packed, int index, int& scale, int& offset) {
  if (index < 4) {
    scale = Byte(packed, index) & 63;
    offset = Byte(packed, index + 4) & 63;
  } else {
    scale = (Byte(packed, index + 4) & 15) | (Byte(packed, index - 4) >> 6 << 4);
    offset = (Byte(packed, index + 4) >> 4) | (Byte(packed, index) >> 6 << 4);
  }
}

void BlockQ45K(const std::byte* block, bool has_fifth, double* out) {
  const std::byte* fifth = block + 16;
  const std::byte* low = block + (has_fifth ? 48 : 16);
  for (int i = 0; i < 256; ++i) {
    const int part = i / 32, lane = i % 32;
    int scale = 0, offset = 0;
    SixBit(block + 4, part, scale, offset);
    const int byte = Byte(low, part / 2 * 32 + lane);
    int quant = part % 2 == 0 ? byte & 15 : byte >> 4;
    if (has_fifth) quant += ((Byte(fifth, lane) >> part) & 1) * 16;
    out[i] = Half(block) * scale * quant - Half(block + 2) * offset;
  }
}

void BlockQ6K(const std::byte* block, double* out) {
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, within = i % 128, quarter = within / 32, lane = within % 32;
    const int byte = Byte(block, half * 64 + quarter % 2 * 32 + lane);
    const int low = quarter < 2 ? byte & 15 : byte >> 4;
    const int high = (Byte(block, 128 + half * 32 + lane) >> (2 * quarter)) & 3;
    const int scale = Load<std::int8_t>(block + 192 + i / 16);
    out[i] = Half(block + 208) * scale * ((low | high << 4) - 32);
  }
}

void Block(WeightFormat format, const std::byte* block, double* out) {
  switch (format) {
    case WeightFormat::kF32:
      *out = Load<float>(block);
      return;
    case WeightFormat::kF16:
      *out = Half(block);
      return;
    case WeightFormat::kBF16:
      *out = std::bit_cast<float>(static_cast<std::uint32_t>(Load<std::uint16_t>(block)) << 16);
      return;
    case WeightFormat::kQ8_0:
      return BlockQ8(block, out);
    case WeightFormat::kQ4_0:
      return Block32(block, false, false, out);
    case WeightFormat::kQ4_1:
      return Block32(block, true, false, out);
    case WeightFormat::kQ5_0:
      return Block32(block, false, true, out);
    case WeightFormat::kQ5_1:
      return Block32(block, true, true, out);
    case WeightFormat::kQ4_K:
      return BlockQ45K(block, false, out);
    case WeightFormat::kQ5_K:
      return BlockQ45K(block, true, out);
    case WeightFormat::kQ6_K:
      return BlockQ6K(block, out);
  }
}

}  // namespace

std::vector<double> Dequantize(const WeightSource& source) {
  const int elements = BlockElements(source.format);
  const std::int64_t row_blocks = source.cols / elements;
  const std::int64_t num_cols = source.num_cols == 0 ? source.cols : source.num_cols;
  const std::int64_t num_rows =
      source.row_order.empty() ? source.rows : static_cast<std::int64_t>(source.row_order.size());
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(num_rows * num_cols));
  std::vector<double> row(static_cast<std::size_t>(source.cols));
  for (std::int64_t i = 0; i < num_rows; ++i) {
    const std::int64_t stored =
        source.row_order.empty() ? i : source.row_order[static_cast<std::size_t>(i)];
    const std::byte* block =
        source.bytes + stored * row_blocks * static_cast<std::int64_t>(BlockBytes(source.format));
    for (std::int64_t b = 0; b < row_blocks; ++b, block += BlockBytes(source.format)) {
      Block(source.format, block, row.data() + b * elements);
    }
    values.insert(values.end(), row.begin() + source.first_col,
                  row.begin() + source.first_col + num_cols);
  }
  return values;
}

}  // namespace thresher::testing
