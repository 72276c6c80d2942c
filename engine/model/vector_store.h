// Norm weights and biases as f32 vectors in one piece of device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/device/tensor_view.h"
#include "kernels/ops/packed_weight.h"

namespace thresher {

// Filled first, then moved to the device at once. One thread at a time.
class VectorStore final {
 public:
  // The number of a vector: the sources' elements one after the other, their row_order applied.
  // The sources are read now. Formats F32, F16 and BF16.
  int Add(std::span<const WeightSource> sources);

  // ResourceExhausted if the device has no room. After it nothing may be added.
  absl::Status Upload(Device& device);
  // f32 [elements]. Valid after Upload, as long as this object. A negative number gives null data.
  TensorView View(int index) const;
  std::int64_t num_bytes() const { return static_cast<std::int64_t>(memory_.num_bytes()); }

 private:
  struct Range {
    std::size_t begin = 0, end = 0;  // elements
  };

  std::vector<float> values_;
  std::vector<Range> ranges_;
  DeviceBuffer memory_;
};

}  // namespace thresher
