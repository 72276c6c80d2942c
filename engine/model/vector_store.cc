#include "engine/model/vector_store.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace thresher {
namespace {

float FromHalf(std::uint16_t bits) {
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

template <typename T>
T LoadAt(const std::byte* bytes, std::int64_t index) {
  T value;
  std::memcpy(&value, bytes + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

float Element(const WeightSource& source, std::int64_t index) {
  if (source.format == WeightFormat::kF32) return LoadAt<float>(source.bytes, index);
  const auto bits = LoadAt<std::uint16_t>(source.bytes, index);
  if (source.format == WeightFormat::kF16) return FromHalf(bits);
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace

int VectorStore::Add(std::span<const WeightSource> sources) {
  // Every vector starts at a multiple of 64 bytes, for the kernels' sake.
  values_.resize((values_.size() + 15) / 16 * 16);
  Range range{.begin = values_.size(), .end = 0};
  for (const WeightSource& source : sources) {
    if (source.row_order.empty()) {
      for (std::int64_t i = 0; i < source.rows * source.cols; ++i) {
        values_.push_back(Element(source, i));
      }
    }
    for (const std::int32_t row : source.row_order) {
      for (std::int64_t col = 0; col < source.cols; ++col) {
        values_.push_back(Element(source, row * source.cols + col));
      }
    }
  }
  range.end = values_.size();
  ranges_.push_back(range);
  return static_cast<int>(ranges_.size()) - 1;
}

absl::Status VectorStore::Upload(Device& device) {
  absl::StatusOr<DeviceBuffer> memory = device.Allocate(values_.size() * sizeof(float));
  if (!memory.ok()) return memory.status();
  memory_ = *std::move(memory);
  absl::Status status =
      device.CopyToDevice(values_.data(), memory_.get(), values_.size() * sizeof(float));
  values_ = {};
  return status;
}

TensorView VectorStore::View(int index) const {
  if (index < 0) return {};
  const Range range = ranges_[static_cast<std::size_t>(index)];
  return TensorView::Of(static_cast<float*>(memory_.get()) + range.begin, DType::kF32,
                        static_cast<std::int64_t>(range.end - range.begin));
}

}  // namespace thresher
