// The Llama-like decoder: RMS norms, rotary attention with grouped KV heads, and a gated MLP.
// Biases, q/k norms, rope scaling and tied embeddings follow from the configuration.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/model/causal_lm.h"

namespace thresher {

// See LoadCausalLm.
absl::StatusOr<std::unique_ptr<CausalLm>> LoadDecoder(const ModelFiles& files, Backend& backend,
                                                      TensorParallelGroup& group,
                                                      const CausalLmOptions& options,
                                                      const LoadProgress& progress);

}  // namespace thresher
