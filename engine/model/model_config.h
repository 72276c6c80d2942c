// What a decoder-only model is, read from its config.json or GGUF metadata.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/ids.h"

namespace thresher {

enum class RopeScaling { kNone, kLinear, kDynamicNtk, kYarn, kLlama3, kLongRope };

struct RopeConfig {
  double theta = 10000;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;
  int original_max_position = 0;
  double low_freq_factor = 1, high_freq_factor = 4;                // llama3
  double beta_fast = 32, beta_slow = 1;                            // yarn
  bool truncate = true;                                            // yarn: whole correction dims
  std::optional<double> attention_factor, mscale, mscale_all_dim;  // yarn, longrope
  std::vector<double> short_factor, long_factor;                   // longrope, [rotary_dim / 2]
  // Divide the unscaled frequencies, [rotary_dim / 2] or empty: a GGUF's rope_freqs.weight.
  std::vector<double> frequency_factors;
  int rotary_dim = 0;
};

struct ModelConfig {
  std::string family;  // the row of model_registry.cc: "llama", "mistral", "qwen2", "qwen3"
  int num_layers = 0;
  int hidden_size = 0;
  int intermediate_size = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int vocab_size = 0;
  int max_position = 0;  // the context limit, after sliding_window has capped it
  // Set if it capped max_position: attention then never reaches past the window.
  std::optional<int> sliding_window;
  double rms_norm_epsilon = 1e-5;
  bool tied_embeddings = false;
  bool qkv_bias = false;
  bool output_bias = false;  // of attention's output projection
  bool mlp_bias = false;
  bool qk_norm = false;
  RopeConfig rope;
  // InvalidArgument naming the field, its value and the limit.
  absl::Status Validate() const;
};

// generation_config.json: what a request that is silent gets, and what ends a sequence.
struct GenerationDefaults {
  std::optional<double> temperature, top_p, repetition_penalty;
  std::optional<int> top_k;
  std::vector<TokenId> end_tokens;  // any of them ends the sequence
};

}  // namespace thresher
