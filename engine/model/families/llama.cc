// Llama 2, 3, 3.1, 3.2 and what is built like them: SmolLM2, TinyLlama.
#include "engine/model/decoder.h"
#include "engine/model/families/families.h"

namespace thresher {

ModelFamily LlamaFamily() {
  return {.name = "llama",
          .hf_architecture = "LlamaForCausalLM",
          .hf_model_type = "llama",
          .gguf_architecture = "llama",
          .optional_attention_bias = true,
          .optional_mlp_bias = true,
          .gguf_permutes_qk = true,
          .load = LoadDecoder};
}

}  // namespace thresher
