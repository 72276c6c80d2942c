// A borrowed, dense, row-major tensor of at most four dimensions.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "kernels/device/dtype.h"

namespace thresher {

// The memory belongs to a DeviceBuffer or a mapped file that outlives the view.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int rank = 0;
  std::array<std::int64_t, 4> shape{};

  static TensorView Of(void* data, DType dtype, std::int64_t d0);
  static TensorView Of(void* data, DType dtype, std::int64_t d0, std::int64_t d1);
  static TensorView Of(void* data, DType dtype, std::int64_t d0, std::int64_t d1, std::int64_t d2);
  static TensorView Of(void* data, DType dtype, std::int64_t d0, std::int64_t d1, std::int64_t d2,
                       std::int64_t d3);

  std::int64_t num_elements() const;
  std::int64_t num_bytes() const { return num_elements() * SizeOf(dtype); }
  // The first `rows` entries of dimension 0.
  TensorView FirstRows(std::int64_t rows) const;
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// "f32[4, 64]", for error messages.
std::string ToString(const TensorView& tensor);

}  // namespace thresher
