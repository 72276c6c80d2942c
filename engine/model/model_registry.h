// The model families this build has: an explicit list, one row each.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/model/causal_lm.h"

namespace thresher {

// What sliding_window in a config.json means.
enum class SlidingWindowRule {
  kNone,    // the family has none
  kAlways,  // it holds
  kIfUsed   // it holds if use_sliding_window is true
};

// How a family differs from the others, and what loads it.
struct ModelFamily {
  std::string_view name;                 // ModelConfig::family
  std::string_view hf_architecture;      // config.json's architectures[0]
  std::string_view hf_model_type;        // config.json's model_type, where architectures is absent
  std::string_view gguf_architecture;    // general.architecture; empty: ships under another's
  bool qkv_bias = false;                 // always has biases on q, k and v
  bool qk_norm = false;                  // always has norms on q and k
  bool optional_attention_bias = false;  // attention_bias adds biases to q, k, v and the output
  bool optional_mlp_bias = false;        // mlp_bias adds biases to gate, up and down
  SlidingWindowRule sliding_window = SlidingWindowRule::kNone;
  // A GGUF stores the rows of q and k with the rotated pairs side by side.
  bool gguf_permutes_qk = false;
  absl::StatusOr<std::unique_ptr<CausalLm>> (*load)(const ModelFiles&, Backend&,
                                                    TensorParallelGroup&, const CausalLmOptions&,
                                                    const LoadProgress&) = nullptr;
};

std::span<const ModelFamily> ModelFamilies();

// Each is null if there is no such row.
const ModelFamily* FindFamily(std::string_view name);
const ModelFamily* FindHuggingFaceFamily(std::string_view architecture,
                                         std::string_view model_type);
const ModelFamily* FindGgufFamily(std::string_view architecture);

}  // namespace thresher
