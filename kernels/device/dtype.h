// Element types of tensors, and the storage formats of weights as model files hold them.
#pragma once

#include <cstdint>
#include <string_view>

namespace thresher {

enum class DType : std::uint8_t { kF32, kBF16, kF16, kI32 };

// Bytes of one element.
constexpr std::int64_t SizeOf(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kI32 ? 4 : 2;
}
std::string_view Name(DType dtype);

// How a weight lies in a file. The block formats are those of GGUF, bit for bit.
enum class WeightFormat : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K
};
std::string_view Name(WeightFormat format);
// Elements in one block of the format (1 for plain formats), and the block's bytes.
int BlockElements(WeightFormat format);
int BlockBytes(WeightFormat format);

}  // namespace thresher
