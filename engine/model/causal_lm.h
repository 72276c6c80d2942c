// A decoder-only language model on one rank: ids in, logits out. Calls StepAttention, never a
// policy.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "engine/attention/step_attention.h"
#include "engine/model/model_files.h"
#include "engine/runner/batch_inputs.h"
#include "kernels/backend.h"

namespace thresher {

struct CausalLmOptions {
  int max_tokens = 0;      // rows of one Forward at most
  int max_logit_rows = 0;  // rows of one ComputeLogits at most
  int max_position = 0;    // positions that the rotary table covers
};

// One thread at a time. Allocates nothing after creation.
class CausalLm {
 public:
  virtual ~CausalLm() = default;
  virtual const ModelConfig& config() const = 0;
  virtual int num_local_heads() const = 0;
  virtual int num_local_kv_heads() const = 0;
  virtual std::int64_t weight_bytes() const = 0;
  // Runs all layers on at most max_tokens rows and keeps the last hidden states until the next
  // call.
  virtual absl::Status Forward(const BatchInputs& inputs, StepAttention& attention,
                               Stream& stream) = 0;
  // logits [rows.size(), vocab_size] f32 of the given rows of the last Forward; gathered over
  // ranks, so every rank gets them all.
  virtual absl::Status ComputeLogits(std::span<const std::int32_t> rows, TensorView logits,
                                     Stream& stream) = 0;
};

// Called as weights are packed: bytes done and in all. The loading thread.
using LoadProgress = std::function<void(std::int64_t done_bytes, std::int64_t total_bytes)>;

// Loads this rank's shard. InvalidArgument if the heads, KV heads or sizes do not divide by the
// group's size, naming the number. `files`, `backend` and `group` outlive the model.
absl::StatusOr<std::unique_ptr<CausalLm>> LoadCausalLm(const ModelFiles& files, Backend& backend,
                                                       TensorParallelGroup& group,
                                                       const CausalLmOptions& options,
                                                       const LoadProgress& progress);

}  // namespace thresher
