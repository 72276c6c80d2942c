// The activations of a decoder, allocated once for the largest step.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/causal_lm.h"
#include "engine/model/weight_shard.h"

namespace thresher {

// Whole buffers; a step uses the first rows. "gemm" is TransformerOps::gemm_input_dtype, "between"
// its activation_dtype. Views live as long as this object.
struct DecoderBuffers {
  TensorView hidden;     // [max_tokens, hidden] f32, the residual
  TensorView normed;     // [max_tokens, hidden] gemm
  TensorView qkv;        // [max_tokens, (heads + 2 KV heads) · head_dim] between
  TensorView q;          // [max_tokens, heads, head_dim] between
  TensorView attention;  // [max_tokens, heads, head_dim] gemm
  // [max_tokens, hidden], what is added to the residual: between, but f32 where ranks add theirs
  // up.
  TensorView branch;
  TensorView gate_up;       // [max_tokens, 2 · intermediate] between
  TensorView activation;    // [max_tokens, intermediate] gemm
  TensorView rows;          // [max_logit_rows, hidden] f32, gathered for the head
  TensorView rows_normed;   // [max_logit_rows, hidden] gemm
  TensorView local_logits;  // [max_logit_rows, vocab of this rank] f32; null data for one rank
  // [max_logit_rows, ranks · vocab of a rank] f32; null data if that is the vocabulary.
  TensorView padded_logits;
  TensorView cos_sin;  // [max_position, rotary_dim] f32
  std::vector<DeviceBuffer> memory;
};

// ResourceExhausted if the device has no room. The rotary table is filled in.
absl::StatusOr<DecoderBuffers> AllocateDecoderBuffers(const ModelConfig& config,
                                                      const ModelShard& shard,
                                                      const CausalLmOptions& options,
                                                      Backend& backend);

}  // namespace thresher
