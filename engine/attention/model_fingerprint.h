// What a threshold table was calibrated for: everything about a model that moves its scores.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/model_files.h"
#include "kernels/device/dtype.h"

namespace thresher {

// Names and values as a person reads them, in a fixed order: sizes of the architecture, rotary
// embedding and its scaling, a hash of the weights, and the class of the cache's element type.
struct ModelFingerprint {
  struct Field {
    std::string name, value;
    friend bool operator==(const Field&, const Field&) = default;
  };
  std::vector<Field> fields;
};

// `config` is what the model runs with; it may differ from files.config() in its rope. The weights'
// hash reads 1 KiB of each matrix of each layer, so that another checkpoint or another quantisation
// shows. f32, f16 and bf16 caches are one class. NotFound as ModelFiles::Weight.
absl::StatusOr<ModelFingerprint> FingerprintOf(const ModelFiles& files, const ModelConfig& config,
                                               DType kv_dtype);

// FailedPrecondition naming the first field that differs, with both values.
absl::Status CheckFingerprint(const ModelFingerprint& table, const ModelFingerprint& model);

}  // namespace thresher
