#include "kernels/cpu/dequantize.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/cpu/half_float.h"

namespace thresher {
namespace {

constexpr int kSmallBlock = 32;   // columns of a Q4_0 … Q8_0 block
constexpr int kSuperBlock = 256;  // columns of a K-quant block

// Files are little-endian, as is every machine with these instruction sets.
template <typename T>
T Read(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

float ReadHalf(const std::byte* bytes) { return F16ToFloat(Read<std::uint16_t>(bytes)); }
int ReadByte(const std::byte* bytes) { return std::to_integer<int>(*bytes); }

// 16 bytes hold 32 nibbles: the low ones are columns 0…15, the high ones 16…31.
void DecodeNibbles(const std::byte* bytes, int offset, std::int8_t* integers) {
  for (int i = 0; i < kSmallBlock / 2; ++i) {
    const int both = ReadByte(bytes + i);
    integers[i] = static_cast<std::int8_t>((both & 15) + offset);
    integers[i + kSmallBlock / 2] = static_cast<std::int8_t>((both >> 4) + offset);
  }
}

// As DecodeNibbles, with bit i of the u32 at `fifth_bits` as bit 4 of column i.
void DecodeFiveBits(const std::byte* fifth_bits, const std::byte* nibbles, int offset,
                    std::int8_t* integers) {
  const auto high = Read<std::uint32_t>(fifth_bits);
  DecodeNibbles(nibbles, offset, integers);
  for (int i = 0; i < kSmallBlock; ++i) {
    integers[i] = static_cast<std::int8_t>(integers[i] + static_cast<int>((high >> i & 1u) << 4));
  }
}

void DecodeQ8_0(const std::byte* block, std::int8_t* integers, float* scales, float* minima) {
  scales[0] = ReadHalf(block);
  minima[0] = 0;
  std::memcpy(integers, block + 2, kSmallBlock);
}

void DecodeQ4_0(const std::byte* block, std::int8_t* integers, float* scales, float* minima) {
  scales[0] = ReadHalf(block);
  minima[0] = 0;
  DecodeNibbles(block + 2, -8, integers);
}

void DecodeQ4_1(const std::byte* block, std::int8_t* integers, float* scales, float* minima) {
  scales[0] = ReadHalf(block);
  minima[0] = ReadHalf(block + 2);
  DecodeNibbles(block + 4, 0, integers);
}

void DecodeQ5_0(const std::byte* block, std::int8_t* integers, float* scales, float* minima) {
  scales[0] = ReadHalf(block);
  minima[0] = 0;
  DecodeFiveBits(block + 2, block + 6, -16, integers);
}

void DecodeQ5_1(const std::byte* block, std::int8_t* integers, float* scales, float* minima) {
  scales[0] = ReadHalf(block);
  minima[0] = ReadHalf(block + 2);
  DecodeFiveBits(block + 4, block + 8, 0, integers);
}

// Q4_K and Q5_K: eight 6-bit scales and eight 6-bit minima in 12 bytes. Groups 0…3 lie in the low
// six bits of bytes 0…3 (scales) and 4…7 (minima); groups 4…7 have their low four bits in the
// nibbles of bytes 8…11 and their high two in the top bits of bytes 0…7.
void DecodeSuperScales(const std::byte* block, float* scales, float* minima) {
  const float scale_unit = ReadHalf(block);
  const float minimum_unit = ReadHalf(block + 2);
  const std::byte* packed = block + 4;
  for (int i = 0; i < 8; ++i) {
    int scale, minimum;
    if (i < 4) {
      scale = ReadByte(packed + i) & 63;
      minimum = ReadByte(packed + 4 + i) & 63;
    } else {
      const int low = ReadByte(packed + 4 + i);
      scale = (low & 15) | ReadByte(packed + i - 4) >> 6 << 4;
      minimum = low >> 4 | ReadByte(packed + i) >> 6 << 4;
    }
    scales[i] = scale_unit * static_cast<float>(scale);
    minima[i] = -(minimum_unit * static_cast<float>(minimum));
  }
}

// Each 32 bytes hold two groups: low nibbles, then high nibbles.
void DecodeSuperNibbles(const std::byte* bytes, std::int8_t* integers) {
  for (int i = 0; i < kSuperBlock; ++i) {
    const int both = ReadByte(bytes + i / 64 * 32 + i % 32);
    integers[i] = static_cast<std::int8_t>(i % 64 < 32 ? both & 15 : both >> 4);
  }
}

void DecodeQ4_K(const std::byte* block, std::int8_t* integers, float* scales, float* minima) {
  DecodeSuperScales(block, scales, minima);
  DecodeSuperNibbles(block + 16, integers);
}

// Bit g of byte i of the 32 bytes at 16 is bit 4 of column i of group g.
void DecodeQ5_K(const std::byte* block, std::int8_t* integers, float* scales, float* minima) {
  DecodeSuperScales(block, scales, minima);
  DecodeSuperNibbles(block + 48, integers);
  for (int i = 0; i < kSuperBlock; ++i) {
    const int fifth = ReadByte(block + 16 + i % 32) >> (i / 32) & 1;
    integers[i] = static_cast<std::int8_t>(integers[i] + (fifth << 4));
  }
}

// 128 bytes of low nibbles, 64 of high bit pairs, 16 signed scales, then the unit. In each half of
// 128 columns, quarter c takes nibble c/2 of low byte (c%2)·32 + i and bit pair c of high byte i.
void DecodeQ6_K(const std::byte* block, std::int8_t* integers, float* scales, float* minima) {
  const float unit = ReadHalf(block + 208);
  for (int i = 0; i < 16; ++i) {
    scales[i] = unit * static_cast<float>(Read<std::int8_t>(block + 192 + i));
    minima[i] = 0;
  }
  for (int half = 0; half < 2; ++half) {
    const std::byte* low = block + half * 64;
    const std::byte* high = block + 128 + half * 32;
    for (int i = 0; i < 128; ++i) {
      const int quarter = i / 32;
      const int nibbles = ReadByte(low + i % 64);
      const int four = quarter < 2 ? nibbles & 15 : nibbles >> 4;
      const int two = ReadByte(high + i % 32) >> (2 * quarter) & 3;
      integers[half * 128 + i] = static_cast<std::int8_t>((four | two << 4) - 32);
    }
  }
}

using DecodeBlock = void (*)(const std::byte*, std::int8_t*, float*, float*);

struct FormatRow {
  GroupLayout layout;
  DecodeBlock decode;
};

// In the order of WeightFormat.
constexpr FormatRow kFormats[] = {
    {{}, nullptr},  // F32
    {{}, nullptr},  // F16
    {{}, nullptr},  // BF16
    {{32, -128, 127, true, false}, DecodeQ8_0},
    {{32, -8, 7, true, false}, DecodeQ4_0},
    {{32, 0, 15, true, true}, DecodeQ4_1},
    {{32, -16, 15, true, false}, DecodeQ5_0},
    {{32, 0, 31, true, true}, DecodeQ5_1},
    {{32, 0, 15, false, true}, DecodeQ4_K},
    {{32, 0, 31, false, true}, DecodeQ5_K},
    {{16, -32, 31, false, false}, DecodeQ6_K},
};

const FormatRow& RowOf(WeightFormat format) { return kFormats[static_cast<int>(format)]; }

void DequantizePlain(WeightFormat format, const std::byte* first, std::int64_t num_cols,
                     float* out) {
  if (format == WeightFormat::kF32) {
    std::memcpy(out, first, static_cast<std::size_t>(num_cols) * sizeof(float));
    return;
  }
  for (std::int64_t i = 0; i < num_cols; ++i) {
    const auto bits = Read<std::uint16_t>(first + 2 * i);
    out[i] = format == WeightFormat::kF16 ? F16ToFloat(bits) : Bf16ToFloat(bits);
  }
}

}  // namespace

GroupLayout GroupsOf(WeightFormat format) { return RowOf(format).layout; }

void DecodeGroups(WeightFormat format, const std::byte* blocks, std::int64_t num_blocks,
                  std::int8_t* integers, float* scales, float* minima) {
  const FormatRow& row = RowOf(format);
  const int elements = BlockElements(format), groups = elements / row.layout.size;
  for (std::int64_t i = 0; i < num_blocks; ++i) {
    row.decode(blocks + i * BlockBytes(format), integers + i * elements, scales + i * groups,
               minima + i * groups);
  }
}

void DequantizeRow(WeightFormat format, const std::byte* row, std::int64_t first_col,
                   std::int64_t num_cols, float* out) {
  const int elements = BlockElements(format);
  if (elements == 1) {
    DequantizePlain(format, row + first_col * BlockBytes(format), num_cols, out);
    return;
  }
  const int group = GroupsOf(format).size;
  std::array<std::int8_t, kSuperBlock> integers;
  std::array<float, kSuperBlock / 16> scales, minima;
  const std::int64_t end = first_col + num_cols;
  for (std::int64_t block = first_col / elements; block * elements < end; ++block) {
    DecodeGroups(format, row + block * BlockBytes(format), 1, integers.data(), scales.data(),
                 minima.data());
    const std::int64_t base = block * elements;
    const std::int64_t stop = std::min<std::int64_t>(end - base, elements);
    for (std::int64_t i = std::max<std::int64_t>(first_col - base, 0); i < stop; ++i) {
      const float product = scales[static_cast<std::size_t>(i / group)] *
                            static_cast<float>(integers[static_cast<std::size_t>(i)]);
      out[base + i - first_col] = product + minima[static_cast<std::size_t>(i / group)];
    }
  }
}

}  // namespace thresher
