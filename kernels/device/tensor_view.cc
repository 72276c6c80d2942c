#include "kernels/device/tensor_view.h"

namespace thresher {

TensorView TensorView::Of(void* data, DType dtype, std::int64_t d0) {
  return {data, dtype, 1, {d0}};
}
TensorView TensorView::Of(void* data, DType dtype, std::int64_t d0, std::int64_t d1) {
  return {data, dtype, 2, {d0, d1}};
}
TensorView TensorView::Of(void* data, DType dtype, std::int64_t d0, std::int64_t d1,
                          std::int64_t d2) {
  return {data, dtype, 3, {d0, d1, d2}};
}
TensorView TensorView::Of(void* data, DType dtype, std::int64_t d0, std::int64_t d1,
                          std::int64_t d2, std::int64_t d3) {
  return {data, dtype, 4, {d0, d1, d2, d3}};
}

std::int64_t TensorView::num_elements() const {
  std::int64_t product = rank > 0 ? 1 : 0;
  for (int i = 0; i < rank; ++i) product *= shape[i];
  return product;
}

TensorView TensorView::FirstRows(std::int64_t rows) const {
  TensorView view = *this;
  view.shape[0] = rows;
  return view;
}

std::string ToString(const TensorView& tensor) {
  std::string text = std::string(Name(tensor.dtype)) + "[";
  for (int i = 0; i < tensor.rank; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(tensor.shape[i]);
  }
  return text + "]";
}

}  // namespace thresher
