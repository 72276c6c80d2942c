// One rank's weights of a Llama-like model, packed for its device.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/causal_lm.h"
#include "engine/model/vector_store.h"
#include "engine/model/weight_shard.h"

namespace thresher {

// Numbers name vectors in DecoderWeights::vectors; −1: the model has none.
struct DecoderLayerWeights {
  std::unique_ptr<PackedWeight> qkv;      // [(heads + 2 KV heads) · head_dim, hidden]
  std::unique_ptr<PackedWeight> output;   // [hidden, heads · head_dim]
  std::unique_ptr<PackedWeight> gate_up;  // [2 · intermediate, hidden], gate first
  std::unique_ptr<PackedWeight> down;     // [hidden, intermediate]
  int input_norm = -1, post_attention_norm = -1;
  int q_norm = -1, k_norm = -1;
  int qkv_bias = -1, gate_up_bias = -1;
  // Added before the sum over the ranks, so rank 0 alone has them.
  int output_bias = -1, down_bias = -1;
};

struct DecoderWeights {
  std::unique_ptr<PackedWeight> embedding;  // [vocab, hidden], all of it on every rank
  std::unique_ptr<PackedWeight> head;       // [rows of this rank, hidden]
  std::vector<DecoderLayerWeights> layers;
  int final_norm = -1;
  VectorStore vectors;
  std::int64_t num_bytes = 0;
};

// Packs layer by layer and lets go of each layer's file pages, so that a model is never in memory
// twice. Errors of ModelFiles::Weight and TransformerOps::PackWeight.
absl::StatusOr<DecoderWeights> LoadDecoderWeights(const ModelFiles& files, const ModelShard& shard,
                                                  Backend& backend, const LoadProgress& progress);

}  // namespace thresher
