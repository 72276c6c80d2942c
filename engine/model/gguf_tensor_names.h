// How GGUF files of Llama-like models name their tensors.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace thresher {

// "model.layers.3.mlp.up_proj.weight" to "blk.3.ffn_up.weight"; absent if there is no such name.
std::optional<std::string> GgufTensorName(std::string_view hugging_face_name);

}  // namespace thresher
