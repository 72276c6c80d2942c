// Qwen2 and Qwen2.5: biases on q, k and v alone.
#include "engine/model/decoder.h"
#include "engine/model/families/families.h"

namespace thresher {

ModelFamily Qwen2Family() {
  return {.name = "qwen2",
          .hf_architecture = "Qwen2ForCausalLM",
          .hf_model_type = "qwen2",
          .gguf_architecture = "qwen2",
          .qkv_bias = true,
          .sliding_window = SlidingWindowRule::kIfUsed,
          .load = LoadDecoder};
}

}  // namespace thresher
