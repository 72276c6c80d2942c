// The part of a step that no engine can avoid: its matrix products alone, with the model's own
// weights in the model's own shapes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model_files.h"
#include "kernels/backend.h"

namespace thresher {

// Holds a second copy of the weights, packed as the model packs them. One thread.
class GemmOnly final {
 public:
  // `backend` outlives the object. Errors as ModelFiles::Weight and TransformerOps::PackWeight.
  static absl::StatusOr<std::unique_ptr<GemmOnly>> Create(const ModelFiles& files, Backend& backend,
                                                          std::int64_t max_rows);

  // Seconds for all products of one step of `num_rows` rows, of which `num_logit_rows` go through
  // the head: the median of `repetitions` after one warm-up.
  absl::StatusOr<double> StepSeconds(std::int64_t num_rows, std::int64_t num_logit_rows,
                                     int repetitions);
  // Bytes of weights that such a step reads.
  std::int64_t StepBytes(std::int64_t num_rows, std::int64_t num_logit_rows) const;

 private:
  explicit GemmOnly(Backend& backend) : backend_(backend) {}
  absl::Status Pack(const ModelFiles& files, const std::vector<std::string>& names);
  absl::Status Multiply(const PackedWeight& weight, std::int64_t num_rows, DType out);

  Backend& backend_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::unique_ptr<PackedWeight>> weights_;  // the head last
  DeviceBuffer input_, output_;
};

}  // namespace thresher
