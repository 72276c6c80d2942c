// What a step cannot be faster than: the bytes that it must read and the operations that it must
// do.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/model/model_files.h"
#include "kernels/device/device.h"
#include "kernels/device/dtype.h"

namespace thresher {

struct StepFloor {
  std::int64_t weight_bytes = 0;    // of all matrices but a look-up table
  std::int64_t kv_bytes = 0;        // of a cached token, all layers
  std::int64_t layer_elements = 0;  // of the layers' matrices
  std::int64_t head_elements = 0;
  std::int64_t attention_width = 0;  // query heads times their size, all layers

  // Every weight once, and K and V of each row's context.
  double DecodeBytes(int batch, int context) const;
  // Products of all rows, the head for the last one alone, and causal attention.
  double PrefillOperations(int prompt_tokens) const;
};

// A GPU holds its weights in bf16; a CPU about as the file has them. Errors of ModelFiles::Weight.
absl::StatusOr<StepFloor> StepFloorOf(const ModelFiles& files, DeviceKind device, DType kv_dtype);

}  // namespace thresher
