// The one shape checker: ops check their tensors here before they trust them.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "absl/status/status.h"
#include "kernels/device/tensor_view.h"

namespace thresher {

// A dimension of any size.
inline constexpr std::int64_t kAnySize = -1;

// OK if `tensor` has data (or no elements), one of `dtypes` (repeats are fine) and exactly `shape`;
// else InvalidArgument such as "rms_norm: weight is f32[64], expected f32[128]". Builds text only
// on failure.
absl::Status CheckTensor(const char* op, const char* name, const TensorView& tensor,
                         std::initializer_list<DType> dtypes,
                         std::initializer_list<std::int64_t> shape);

// OK if `value` == `expected`; else "op: name is 3, expected 4".
absl::Status CheckCount(const char* op, const char* name, std::int64_t value,
                        std::int64_t expected);

// OK if minimum <= value <= maximum; else "op: name is 9, expected 0 to 8".
absl::Status CheckRange(const char* op, const char* name, std::int64_t value, std::int64_t minimum,
                        std::int64_t maximum);

}  // namespace thresher
