#include "engine/model/gguf_tensor_names.h"

namespace thresher {
namespace {

struct NamePair {
  std::string_view hugging_face;
  std::string_view gguf;
};

constexpr NamePair kWholeModel[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
};

// Between the layer's number and ".weight" or ".bias".
constexpr NamePair kLayer[] = {
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
    {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.o_proj", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};

constexpr std::string_view kLayerPrefix = "model.layers.";

}  // namespace

std::optional<std::string> GgufTensorName(std::string_view name) {
  for (const NamePair& pair : kWholeModel) {
    if (name == pair.hugging_face) return std::string(pair.gguf);
  }
  if (!name.starts_with(kLayerPrefix)) return std::nullopt;
  name.remove_prefix(kLayerPrefix.size());
  const std::size_t number_end = name.find('.');
  const std::size_t kind = name.rfind('.');
  if (number_end == std::string_view::npos || kind <= number_end) return std::nullopt;
  const std::string_view middle = name.substr(number_end + 1, kind - number_end - 1);
  for (const NamePair& pair : kLayer) {
    if (middle != pair.hugging_face) continue;
    return "blk." + std::string(name.substr(0, number_end)) + "." + std::string(pair.gguf) +
           std::string(name.substr(kind));
  }
  return std::nullopt;
}

}  // namespace thresher
