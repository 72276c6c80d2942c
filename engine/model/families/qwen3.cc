// Qwen3, the dense ones: an RMS norm over each head of q and k, and a head_dim of its own.
#include "engine/model/decoder.h"
#include "engine/model/families/families.h"

namespace thresher {

ModelFamily Qwen3Family() {
  return {.name = "qwen3",
          .hf_architecture = "Qwen3ForCausalLM",
          .hf_model_type = "qwen3",
          .gguf_architecture = "qwen3",
          .qk_norm = true,
          .optional_attention_bias = true,
          .sliding_window = SlidingWindowRule::kIfUsed,
          .load = LoadDecoder};
}

}  // namespace thresher
