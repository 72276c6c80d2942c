#include "engine/model/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/model_registry.h"

namespace thresher {
namespace {

// Reads keys below the architecture's prefix; the first thing wrong is kept.
class ArchitectureKeys final {
 public:
  ArchitectureKeys(const GgufFile& file, std::string_view architecture, absl::Status& status)
      : file_(file), prefix_(std::string(architecture) + "."), status_(status) {}

  std::optional<int> OptionalInt(const std::string& key) {
    const std::string name = prefix_ + key;
    const std::optional<std::int64_t> value = file_.Int(name);
    if (!value.has_value()) {
      if (file_.Ints(name).has_value()) {
        Fail(absl::UnimplementedError(
            absl::StrCat("metadata '", name, "' differs from layer to layer")));
      }
      return std::nullopt;
    }
    if (*value < 0 || *value > std::numeric_limits<int>::max()) {
      Fail(absl::InvalidArgumentError(
          absl::StrCat("metadata '", name, "' is ", *value, "; it must be from 0 to 2^31 - 1")));
      return 0;
    }
    return static_cast<int>(*value);
  }
  int Int(const std::string& key) {
    const std::optional<int> value = OptionalInt(key);
    if (!value.has_value()) {
      Fail(absl::InvalidArgumentError(
          absl::StrCat("metadata '", prefix_, key, "' is missing or not a whole number")));
    }
    return value.value_or(0);
  }
  std::optional<double> OptionalFloat(const std::string& key) { return file_.Float(prefix_ + key); }
  double Float(const std::string& key) {
    const std::optional<double> value = OptionalFloat(key);
    if (!value.has_value()) {
      Fail(absl::InvalidArgumentError(
          absl::StrCat("metadata '", prefix_, key, "' is missing or not a number")));
    }
    return value.value_or(0);
  }
  std::optional<std::string_view> OptionalString(const std::string& key) {
    return file_.String(prefix_ + key);
  }
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  // An error if the key holds anything but `harmless`: the model would need what we lack.
  void Refuse(const std::string& key, double harmless) {
    const std::optional<double> value = OptionalFloat(key);
    if (value.value_or(harmless) != harmless) {
      Fail(absl::UnimplementedError(
          absl::StrCat("metadata '", prefix_, key, "' is ", *value, ", which is not known")));
    }
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
  absl::Status& status_;
};

// Llama 3.1 files carry its scaling as one divisor per frequency.
absl::Status ReadFrequencyFactors(const GgufFile& file, RopeConfig& rope) {
  const GgufTensor* tensor = file.FindTensor("rope_freqs.weight");
  if (tensor == nullptr) return absl::OkStatus();
  if (tensor->format != WeightFormat::kF32 || tensor->shape.size() != 1 ||
      tensor->shape[0] != rope.rotary_dim / 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor 'rope_freqs.weight' must be ", rope.rotary_dim / 2, " values of F32"));
  }
  std::vector<float> factors(static_cast<std::size_t>(tensor->shape[0]));
  std::memcpy(factors.data(), tensor->bytes.data(), tensor->bytes.size());
  rope.frequency_factors.assign(factors.begin(), factors.end());
  return absl::OkStatus();
}

absl::Status ReadScaling(const GgufFile& file, ArchitectureKeys& keys, int max_position,
                         RopeConfig& rope) {
  const std::string type(keys.OptionalString("rope.scaling.type").value_or("none"));
  rope.factor = keys.OptionalFloat("rope.scaling.factor").value_or(1);
  // The key of files from before scaling had a type.
  if (const std::optional<double> linear = keys.OptionalFloat("rope.scale_linear")) {
    if (type == "none" && *linear != 1) {
      rope.scaling = RopeScaling::kLinear;
      rope.factor = *linear;
    }
  }
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::kYarn;
    rope.original_max_position =
        keys.OptionalInt("rope.scaling.original_context_length").value_or(max_position);
    rope.beta_fast = keys.OptionalFloat("rope.scaling.yarn_beta_fast").value_or(rope.beta_fast);
    rope.beta_slow = keys.OptionalFloat("rope.scaling.yarn_beta_slow").value_or(rope.beta_slow);
    // The file's factor multiplies what YaRN itself gives.
    if (const std::optional<double> factor = keys.OptionalFloat("rope.scaling.attn_factor")) {
      if (rope.factor >= 1) rope.attention_factor = *factor * (1 + 0.1 * std::log(rope.factor));
    }
    keys.Refuse("rope.scaling.yarn_log_multiplier", 0);
  } else if (type != "none") {
    return absl::UnimplementedError(absl::StrCat("metadata 'rope.scaling.type' is '",
                                                 type.substr(0, 40),
                                                 "'; none, linear and yarn are known"));
  }
  for (const char* name : {"rope_factors_long.weight", "rope_factors_short.weight"}) {
    if (file.FindTensor(name) != nullptr) {
      return absl::UnimplementedError(
          absl::StrCat("tensor '", name, "': longrope is not known in GGUF files"));
    }
  }
  return ReadFrequencyFactors(file, rope);
}

absl::StatusOr<const ModelFamily*> FamilyOf(const GgufFile& file) {
  const std::optional<std::string_view> architecture = file.String("general.architecture");
  if (!architecture.has_value()) {
    return absl::InvalidArgumentError("metadata 'general.architecture' is missing");
  }
  const ModelFamily* family = FindGgufFamily(*architecture);
  if (family != nullptr) return family;
  std::string known;
  for (const ModelFamily& row : ModelFamilies()) {
    if (row.gguf_architecture.empty()) continue;
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(row.gguf_architecture));
  }
  return absl::UnimplementedError(absl::StrCat("architecture '",
                                               std::string(architecture->substr(0, 80)),
                                               "' is not known; this engine has ", known));
}

void ReadHeads(ArchitectureKeys& keys, ModelConfig& config) {
  config.num_heads = keys.Int("attention.head_count");
  config.num_kv_heads = keys.OptionalInt("attention.head_count_kv").value_or(config.num_heads);
  const int derived = config.num_heads > 0 ? config.hidden_size / config.num_heads : 0;
  config.head_dim = keys.OptionalInt("attention.key_length").value_or(derived);
  keys.Refuse("attention.value_length", config.head_dim);
  keys.Refuse("rope.dimension_count", config.head_dim);
}

}  // namespace

absl::StatusOr<ModelConfig> ModelConfigFromGguf(const GgufFile& file) {
  absl::StatusOr<const ModelFamily*> family = FamilyOf(file);
  if (!family.ok()) return family.status();
  absl::Status status;
  ArchitectureKeys keys(file, (*family)->gguf_architecture, status);
  ModelConfig config;
  config.family = std::string((*family)->name);
  config.num_layers = keys.Int("block_count");
  config.hidden_size = keys.Int("embedding_length");
  config.intermediate_size = keys.Int("feed_forward_length");
  config.max_position = keys.Int("context_length");
  config.rms_norm_epsilon = keys.Float("attention.layer_norm_rms_epsilon");
  ReadHeads(keys, config);
  // Mixtures of experts, Granite and MiniCPM also ship under these architectures.
  keys.Refuse("expert_count", 0);
  for (const char* key : {"logit_scale", "residual_scale", "embedding_scale"}) keys.Refuse(key, 1);
  keys.Refuse("attention.scale", config.head_dim > 0 ? 1 / std::sqrt(config.head_dim) : 0);

  const GgufTensor* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return absl::InvalidArgumentError("tensor 'token_embd.weight' is missing or not a matrix");
  }
  const int named_vocab = keys.OptionalInt("vocab_size").value_or(-1);
  config.vocab_size = static_cast<int>(
      std::min<std::int64_t>(embedding->shape[0], std::numeric_limits<int>::max()));
  if (named_vocab >= 0 && named_vocab != config.vocab_size) {
    return absl::InvalidArgumentError(absl::StrCat("vocab_size is ", named_vocab,
                                                   ", tensor 'token_embd.weight' has ",
                                                   config.vocab_size, " rows"));
  }
  config.tied_embeddings = file.FindTensor("output.weight") == nullptr;
  config.qkv_bias = (*family)->qkv_bias || file.FindTensor("blk.0.attn_q.bias") != nullptr;
  config.output_bias = file.FindTensor("blk.0.attn_output.bias") != nullptr;
  config.mlp_bias = file.FindTensor("blk.0.ffn_down.bias") != nullptr;
  config.qk_norm = (*family)->qk_norm;

  config.rope.rotary_dim = config.head_dim;
  config.rope.theta = keys.OptionalFloat("rope.freq_base").value_or(10000);
  if (absl::Status scaling = ReadScaling(file, keys, config.max_position, config.rope);
      !scaling.ok()) {
    return scaling;
  }
  const int window = keys.OptionalInt("attention.sliding_window").value_or(0);
  if (window > 0 && window < config.max_position) {
    config.sliding_window = window;
    config.max_position = window;
  }
  if (!status.ok()) return status;
  if (status = config.Validate(); !status.ok()) return status;
  return config;
}

absl::StatusOr<GenerationDefaults> GenerationDefaultsFromGguf(const GgufFile& file,
                                                              int vocab_size) {
  GenerationDefaults defaults;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    const std::optional<std::int64_t> id = file.Int(key);
    // Some writers put 2^32 - 1 for "none".
    if (!id.has_value() || *id == std::numeric_limits<std::uint32_t>::max()) continue;
    if (*id < 0 || *id >= vocab_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("metadata '", key, "' is ", *id, "; the vocabulary has ", vocab_size));
    }
    const auto token = static_cast<TokenId>(*id);
    std::vector<TokenId>& ends = defaults.end_tokens;
    if (std::find(ends.begin(), ends.end(), token) == ends.end()) ends.push_back(token);
  }
  return defaults;
}

}  // namespace thresher
