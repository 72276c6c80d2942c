// Reads what a GGUF file's metadata says about its model.
#pragma once

#include "absl/status/statusor.h"
#include "engine/model/gguf_file.h"
#include "engine/model/model_config.h"

namespace thresher {

// Biases, q/k norms and tied embeddings are told by which tensors the file has. InvalidArgument
// naming the key; Unimplemented naming the architecture, rope type or feature that is not known.
absl::StatusOr<ModelConfig> ModelConfigFromGguf(const GgufFile& file);

// End tokens from tokenizer.ggml.eos_token_id, eot_token_id and eom_token_id. InvalidArgument if
// one of them is no token.
absl::StatusOr<GenerationDefaults> GenerationDefaultsFromGguf(const GgufFile& file, int vocab_size);

}  // namespace thresher
