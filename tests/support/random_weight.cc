#include "tests/support/random_weight.h"

#include <array>
#include <bit>
#include <cstring>
#include <random>

namespace thresher {
namespace {

// Bytes at which a block holds an f16 scale or minimum; -1 for none.
std::array<int, 2> HalvesOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ8_0:
    case WeightFormat::kQ4_0:
    case WeightFormat::kQ5_0:
      return {0, -1};
    case WeightFormat::kQ4_1:
    case WeightFormat::kQ5_1:
    case WeightFormat::kQ4_K:
    case WeightFormat::kQ5_K:
      return {0, 2};
    case WeightFormat::kQ6_K:
      return {208, -1};
    default:
      return {-1, -1};
  }
}

void Store(std::byte* at, std::uint32_t value, std::size_t bytes) {
  std::memcpy(at, &value, bytes);
}

}  // namespace

RandomWeight RandomWeight::Make(WeightFormat format, std::int64_t rows, std::int64_t cols,
                                std::uint32_t seed) {
  RandomWeight weight{.format = format, .rows = rows, .cols = cols, .bytes = {}};
  const int block_bytes = BlockBytes(format);
  const std::int64_t num_blocks = rows * cols / BlockElements(format);
  weight.bytes.resize(static_cast<std::size_t>(num_blocks * block_bytes));
  std::mt19937 random(seed);
  for (std::byte& byte : weight.bytes) byte = static_cast<std::byte>(random() & 255u);
  for (std::int64_t i = 0; i < num_blocks; ++i) {
    std::byte* block = weight.bytes.data() + i * block_bytes;
    // The sign, then two exponents, then the mantissa.
    const std::uint32_t sign = random() & 0x80000000u;
    if (format == WeightFormat::kF32) {
      Store(block, sign | ((119u << 23) + (random() & 0xffffffu)), 4);
    } else if (format == WeightFormat::kBF16) {
      Store(block, (sign >> 16) | ((119u << 7) + (random() & 0xffu)), 2);
    } else if (format == WeightFormat::kF16) {
      Store(block, (sign >> 16) | ((7u << 10) + (random() & 0x7ffu)), 2);
    }
    for (const int at : HalvesOf(format)) {
      if (at < 0) continue;
      Store(block + at, (random() & 0x8000u) | ((7u << 10) + (random() & 0x7ffu)), 2);
    }
  }
  return weight;
}

std::vector<float> RandomBf16Values(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(static_cast<int>(random() % 255u) - 127) / 128.0f;
  }
  return values;
}

}  // namespace thresher
