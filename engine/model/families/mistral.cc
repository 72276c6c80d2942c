// Mistral 7B and its successors: Llama with a sliding window. Its GGUF files say "llama".
#include "engine/model/decoder.h"
#include "engine/model/families/families.h"

namespace thresher {

ModelFamily MistralFamily() {
  return {.name = "mistral",
          .hf_architecture = "MistralForCausalLM",
          .hf_model_type = "mistral",
          .gguf_architecture = "",
          .sliding_window = SlidingWindowRule::kAlways,
          .load = LoadDecoder};
}

}  // namespace thresher
