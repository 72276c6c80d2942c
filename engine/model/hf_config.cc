#include "engine/model/hf_config.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/field_reader.h"
#include "engine/model/hf_rope_config.h"
#include "engine/model/model_registry.h"

namespace thresher {
namespace {

constexpr int kAny = std::numeric_limits<int>::max();  // ModelConfig::Validate has the limits

absl::StatusOr<const ModelFamily*> FamilyOf(const nlohmann::json& config) {
  std::string architecture;
  const auto architectures = config.find("architectures");
  if (architectures != config.end() && architectures->is_array() && !architectures->empty() &&
      architectures->front().is_string()) {
    architecture = architectures->front().get<std::string>();
  }
  std::string model_type;
  const auto type = config.find("model_type");
  if (type != config.end() && type->is_string()) model_type = type->get<std::string>();
  const ModelFamily* family = FindHuggingFaceFamily(architecture, model_type);
  if (family != nullptr) return family;
  std::string known;
  for (const ModelFamily& row : ModelFamilies()) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(row.hf_architecture));
  }
  return absl::UnimplementedError(
      absl::StrCat("config.json: architecture '", architecture.substr(0, 80), "' (model_type '",
                   model_type.substr(0, 80), "') is not known; this engine has ", known));
}

// A sliding window shorter than the context caps it: inside the window, attention is the full one.
void ApplySlidingWindow(const ModelFamily& family, FieldReader& fields, ModelConfig& config) {
  const bool holds = family.sliding_window == SlidingWindowRule::kAlways ||
                     (family.sliding_window == SlidingWindowRule::kIfUsed &&
                      fields.BoolOr("use_sliding_window", false));
  if (!holds) return;
  const std::optional<int> window = fields.OptionalInt("sliding_window", 1, kAny);
  if (!window.has_value() || *window >= config.max_position) return;
  config.sliding_window = window;
  config.max_position = *window;
}

}  // namespace

absl::StatusOr<ModelConfig> ModelConfigFromHuggingFace(std::string_view config_json) {
  nlohmann::json json;
  if (absl::Status parsed = ParseJsonObject(config_json, "config.json", json); !parsed.ok()) {
    return parsed;
  }
  absl::StatusOr<const ModelFamily*> found = FamilyOf(json);
  if (!found.ok()) return found.status();
  const ModelFamily& family = **found;
  absl::Status status;
  FieldReader fields(json, "config.json", status);
  if (fields.Has("quantization_config")) {
    return absl::UnimplementedError(
        "config.json: quantization_config: this engine reads F32, F16 and BF16 weights; use a GGUF "
        "file for quantised ones");
  }
  const std::string activation = fields.OptionalString("hidden_act").value_or("silu");
  if (activation != "silu" && activation != "swish") {
    return absl::UnimplementedError(absl::StrCat(
        "config.json: hidden_act is '", activation.substr(0, 40), "'; only silu is known"));
  }
  ModelConfig config;
  config.family = std::string(family.name);
  config.num_layers = fields.Int("num_hidden_layers", 0, kAny);
  config.hidden_size = fields.Int("hidden_size", 0, kAny);
  config.intermediate_size = fields.Int("intermediate_size", 0, kAny);
  config.num_heads = fields.Int("num_attention_heads", 1, kAny);
  config.num_kv_heads =
      fields.OptionalInt("num_key_value_heads", 0, kAny).value_or(config.num_heads);
  config.head_dim = fields.OptionalInt("head_dim", 0, kAny)
                        .value_or(config.num_heads > 0 ? config.hidden_size / config.num_heads : 0);
  config.vocab_size = fields.Int("vocab_size", 0, kAny);
  config.max_position = fields.Int("max_position_embeddings", 1, kAny);
  config.rms_norm_epsilon = fields.OptionalFloat("rms_norm_eps", 0, 1).value_or(1e-6);
  config.tied_embeddings = fields.BoolOr("tie_word_embeddings", false);
  const bool attention_bias =
      family.optional_attention_bias && fields.BoolOr("attention_bias", false);
  config.qkv_bias = family.qkv_bias || attention_bias;
  config.output_bias = attention_bias;
  config.mlp_bias = family.optional_mlp_bias && fields.BoolOr("mlp_bias", false);
  config.qk_norm = family.qk_norm;
  if (!status.ok()) return status;

  absl::StatusOr<RopeConfig> rope =
      RopeConfigFromHuggingFace(json, config.head_dim, config.max_position);
  if (!rope.ok()) return rope.status();
  config.rope = *std::move(rope);
  // Some YaRN files keep the length before scaling in max_position_embeddings.
  if (config.rope.scaling == RopeScaling::kYarn &&
      config.max_position <= config.rope.original_max_position) {
    const double scaled = config.rope.original_max_position * config.rope.factor;
    config.max_position = scaled < kAny ? static_cast<int>(scaled) : kAny;
  }
  ApplySlidingWindow(family, fields, config);
  if (!status.ok()) return status;
  if (status = config.Validate(); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("config.json: ", status.message()));
  }
  return config;
}

absl::StatusOr<GenerationDefaults> GenerationDefaultsFromHuggingFace(
    std::string_view generation_json, std::string_view config_json, int vocab_size) {
  GenerationDefaults defaults;
  absl::Status status;
  nlohmann::json config;
  if (status = ParseJsonObject(config_json, "config.json", config); !status.ok()) return status;
  FieldReader config_fields(config, "config.json", status);
  defaults.end_tokens = config_fields.Ints("eos_token_id", 0, vocab_size - 1);
  if (generation_json.empty()) {
    if (!status.ok()) return status;
    return defaults;
  }
  nlohmann::json generation;
  if (status = ParseJsonObject(generation_json, "generation_config.json", generation);
      !status.ok()) {
    return status;
  }
  FieldReader fields(generation, "generation_config.json", status);
  defaults.temperature = fields.OptionalFloat("temperature", 0, 1e6);
  defaults.top_p = fields.OptionalFloat("top_p", 0, 1);
  defaults.top_k = fields.OptionalInt("top_k", -1, kAny);
  defaults.repetition_penalty = fields.OptionalFloat("repetition_penalty", 1e-6, 1e6);
  if (fields.Has("eos_token_id")) {
    defaults.end_tokens = fields.Ints("eos_token_id", 0, vocab_size - 1);
  }
  if (!status.ok()) return status;
  return defaults;
}

}  // namespace thresher
