#include "kernels/device/shape_check.h"

#include <algorithm>
#include <string>

namespace thresher {
namespace {

std::string Expected(std::initializer_list<DType> dtypes,
                     std::initializer_list<std::int64_t> shape) {
  std::string text;
  for (const DType& dtype : dtypes) {
    if (std::find(dtypes.begin(), &dtype, dtype) != &dtype) continue;
    if (!text.empty()) text += " or ";
    text += Name(dtype);
  }
  text += "[";
  for (const std::int64_t& size : shape) {
    if (&size != shape.begin()) text += ", ";
    text += size == kAnySize ? "any" : std::to_string(size);
  }
  return text + "]";
}

bool SameShape(const TensorView& tensor, std::initializer_list<std::int64_t> shape) {
  if (tensor.rank != static_cast<int>(shape.size())) return false;
  int i = 0;
  for (const std::int64_t size : shape) {
    if (tensor.shape[i] < 0 || (size != kAnySize && tensor.shape[i] != size)) return false;
    ++i;
  }
  return true;
}

}  // namespace

absl::Status CheckTensor(const char* op, const char* name, const TensorView& tensor,
                         std::initializer_list<DType> dtypes,
                         std::initializer_list<std::int64_t> shape) {
  const bool dtype_allowed = std::find(dtypes.begin(), dtypes.end(), tensor.dtype) != dtypes.end();
  if (!dtype_allowed || !SameShape(tensor, shape)) {
    return absl::InvalidArgumentError(std::string(op) + ": " + name + " is " + ToString(tensor) +
                                      ", expected " + Expected(dtypes, shape));
  }
  if (tensor.data == nullptr && tensor.num_elements() != 0) {
    return absl::InvalidArgumentError(std::string(op) + ": " + name + " " + ToString(tensor) +
                                      " has no data");
  }
  return absl::OkStatus();
}

absl::Status CheckCount(const char* op, const char* name, std::int64_t value,
                        std::int64_t expected) {
  if (value == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(std::string(op) + ": " + name + " is " + std::to_string(value) +
                                    ", expected " + std::to_string(expected));
}

absl::Status CheckRange(const char* op, const char* name, std::int64_t value, std::int64_t minimum,
                        std::int64_t maximum) {
  if (value >= minimum && value <= maximum) return absl::OkStatus();
  return absl::InvalidArgumentError(std::string(op) + ": " + name + " is " + std::to_string(value) +
                                    ", expected " + std::to_string(minimum) + " to " +
                                    std::to_string(maximum));
}

}  // namespace thresher
