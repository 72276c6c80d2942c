#include "engine/model/hf_config.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/model/hf_chat_template.h"
#include "gtest/gtest.h"

namespace thresher {
namespace {

using nlohmann::json;

json Llama() {
  return json{{"architectures", {"LlamaForCausalLM"}},
              {"model_type", "llama"},
              {"num_hidden_layers", 2},
              {"hidden_size", 64},
              {"intermediate_size", 128},
              {"num_attention_heads", 4},
              {"num_key_value_heads", 2},
              {"vocab_size", 100},
              {"max_position_embeddings", 2048},
              {"rms_norm_eps", 1e-5},
              {"eos_token_id", 2}};
}

absl::StatusOr<ModelConfig> Read(const json& config) {
  return ModelConfigFromHuggingFace(config.dump());
}

TEST(HuggingFaceConfig, ReadsALlama) {
  auto config = Read(Llama());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->family, "llama");
  EXPECT_EQ(config->num_layers, 2);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->num_kv_heads, 2);
  EXPECT_EQ(config->max_position, 2048);
  EXPECT_EQ(config->sliding_window, std::nullopt);
  EXPECT_EQ(config->rms_norm_epsilon, 1e-5);
  EXPECT_EQ(config->rope.theta, 10000);
  EXPECT_FALSE(config->tied_embeddings);
  EXPECT_FALSE(config->qkv_bias || config->output_bias || config->mlp_bias || config->qk_norm);
}

TEST(HuggingFaceConfig, ReadsWhatAFamilyMayHave) {
  json config = Llama();
  config["attention_bias"] = true;
  config["mlp_bias"] = true;
  config["tie_word_embeddings"] = true;
  config["head_dim"] = 32;
  auto read = Read(config);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->qkv_bias && read->output_bias && read->mlp_bias && read->tied_embeddings);
  EXPECT_EQ(read->head_dim, 32);
  EXPECT_EQ(read->rope.rotary_dim, 32);

  config = Llama();
  config["architectures"] = {"Qwen2ForCausalLM"};
  read = Read(config);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->qkv_bias && !read->output_bias && !read->qk_norm);

  config["architectures"] = {"Qwen3ForCausalLM"};
  read = Read(config);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(!read->qkv_bias && !read->output_bias && read->qk_norm);
}

TEST(HuggingFaceConfig, ModelTypeServesWhereArchitecturesIsAbsent) {
  json config = Llama();
  config.erase("architectures");
  config["model_type"] = "mistral";
  auto read = Read(config);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->family, "mistral");
}

TEST(HuggingFaceConfig, SlidingWindowCapsTheContextWhereItHolds) {
  json config = Llama();
  config["sliding_window"] = 512;
  EXPECT_EQ(Read(config)->max_position, 2048) << "Llama has none";

  config["architectures"] = {"MistralForCausalLM"};
  EXPECT_EQ(Read(config)->max_position, 512);
  EXPECT_EQ(Read(config)->sliding_window, 512);
  config["sliding_window"] = nullptr;
  EXPECT_EQ(Read(config)->max_position, 2048);
  config["sliding_window"] = 4096;
  EXPECT_EQ(Read(config)->max_position, 2048);
  EXPECT_EQ(Read(config)->sliding_window, std::nullopt) << "it caps nothing";

  config["architectures"] = {"Qwen2ForCausalLM"};
  config["sliding_window"] = 512;
  EXPECT_EQ(Read(config)->max_position, 2048) << "use_sliding_window is not set";
  config["use_sliding_window"] = true;
  EXPECT_EQ(Read(config)->max_position, 512);
}

TEST(HuggingFaceConfig, YarnOnAnUnscaledLengthGivesTheScaledOne) {
  json config = Llama();
  config["rope_scaling"] = {
      {"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 2048}};
  EXPECT_EQ(Read(config)->max_position, 8192);
  config["max_position_embeddings"] = 8192;
  EXPECT_EQ(Read(config)->max_position, 8192);
}

struct BadField {
  const char* key;
  json value;
  absl::StatusCode code;
  const char* message;
};

TEST(HuggingFaceConfig, RefusesBadFieldsByName) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kUnknown = absl::StatusCode::kUnimplemented;
  const json unknown_rope = {{"rope_type", "spiral"}, {"factor", 2.0}};
  const BadField fields[] = {
      {"num_hidden_layers", 0, kInvalid, "num_layers is 0"},
      {"num_hidden_layers", -1, kInvalid, "num_hidden_layers is -1"},
      {"num_hidden_layers", 1 << 30, kInvalid, "num_layers"},
      {"num_hidden_layers", nullptr, kInvalid, "num_hidden_layers is missing"},
      {"num_hidden_layers", 2.5, kInvalid, "num_hidden_layers is 2.5"},
      {"hidden_size", 1ull << 63, kInvalid, "hidden_size"},
      {"hidden_size", "64", kInvalid, "hidden_size is \"64\""},
      {"hidden_size", 0, kInvalid, "hidden_size is 0"},
      {"intermediate_size", 0, kInvalid, "intermediate_size is 0"},
      {"num_attention_heads", 0, kInvalid, "num_attention_heads is 0"},
      {"num_key_value_heads", 0, kInvalid, "num_kv_heads is 0"},
      {"num_key_value_heads", 3, kInvalid, "multiple of num_kv_heads"},
      {"num_key_value_heads", 8, kInvalid, "num_kv_heads is 8"},
      {"head_dim", 12, kInvalid, "head_dim is 12"},
      {"head_dim", 512, kInvalid, "head_dim is 512"},
      {"vocab_size", 0, kInvalid, "vocab_size is 0"},
      {"max_position_embeddings", 0, kInvalid, "max_position_embeddings is 0"},
      {"rms_norm_eps", 0, kInvalid, "rms_norm_epsilon is 0"},
      {"rms_norm_eps", -1e-5, kInvalid, "rms_norm_eps is"},
      {"rms_norm_eps", "nan", kInvalid, "rms_norm_eps"},
      {"rope_theta", 0, kInvalid, "rope theta is 0"},
      {"rope_theta", "big", kInvalid, "rope_theta"},
      {"tie_word_embeddings", "yes", kInvalid, "tie_word_embeddings"},
      {"architectures", json{"GPT2LMHeadModel"}, kUnknown, "GPT2LMHeadModel"},
      {"hidden_act", "gelu", kUnknown, "gelu"},
      {"quantization_config", json{{"bits", 4}}, kUnknown, "quantization_config"},
      {"partial_rotary_factor", 0.5, kUnknown, "partial_rotary_factor"},
      {"rope_scaling", unknown_rope, kUnknown, "'spiral'"},
      {"rope_parameters", unknown_rope, kUnknown, "'spiral'"},
      {"rope_parameters", json{{"full_attention", {{"rope_type", "default"}}}}, kUnknown, "layer"},
      {"rope_scaling", json{{"type", "linear"}}, kInvalid, "lacks factor"},
      {"rope_scaling", json{{"type", "linear"}, {"factor", 0}}, kInvalid, "rope factor is 0"},
      {"rope_scaling", json{{"type", "yarn"}, {"factor", -4}}, kInvalid, "factor is -4"},
      {"rope_scaling", json{{"type", "llama3"}, {"factor", 8}, {"high_freq_factor", 1}}, kInvalid,
       "high_freq_factor is 1"},
      {"rope_scaling", json{{"type", "longrope"}, {"short_factor", {1.0}}, {"long_factor", {1.0}}},
       kInvalid, "short_factor has 1"},
      {"rope_scaling", "linear", kInvalid, "must be an object"},
  };
  for (const BadField& field : fields) {
    json config = Llama();
    config[field.key] = field.value;
    const absl::Status status = Read(config).status();
    EXPECT_EQ(status.code(), field.code) << field.key << " " << field.value << status;
    EXPECT_NE(std::string(status.message()).find(field.message), std::string::npos)
        << field.message << ": " << status;
  }
}

TEST(HuggingFaceConfig, RefusesWhatIsNoJsonObject) {
  for (const char* text : {"", "[]", "3", "{\"a\": NaN}", "{", "\xff"}) {
    EXPECT_EQ(ModelConfigFromHuggingFace(text).status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
  // Nested far deeper than a recursive reader would survive.
  std::string deep = "{\"a\":";
  deep += std::string(1 << 20, '[');
  EXPECT_FALSE(ModelConfigFromHuggingFace(deep).ok());
}

TEST(GenerationDefaults, ComeFromGenerationConfigAndEndTokensElseFromConfig) {
  const std::string config = Llama().dump();
  auto defaults = GenerationDefaultsFromHuggingFace("", config, 100);
  ASSERT_TRUE(defaults.ok()) << defaults.status();
  EXPECT_EQ(defaults->end_tokens, std::vector<TokenId>{2});
  EXPECT_EQ(defaults->temperature, std::nullopt);

  defaults = GenerationDefaultsFromHuggingFace(
      R"({"eos_token_id": [7, 8], "temperature": 0.6, "top_p": 0.9, "top_k": 20,
          "repetition_penalty": 1.1})",
      config, 100);
  ASSERT_TRUE(defaults.ok()) << defaults.status();
  EXPECT_EQ(defaults->end_tokens, (std::vector<TokenId>{7, 8}));
  EXPECT_EQ(defaults->temperature, 0.6);
  EXPECT_EQ(defaults->top_p, 0.9);
  EXPECT_EQ(defaults->top_k, 20);
  EXPECT_EQ(defaults->repetition_penalty, 1.1);
}

TEST(GenerationDefaults, RefuseBadFieldsByName) {
  const std::string config = Llama().dump();
  for (const char* text : {R"({"eos_token_id": 100})", R"({"eos_token_id": [2, -1]})",
                           R"({"eos_token_id": "</s>"})"}) {
    const absl::Status status = GenerationDefaultsFromHuggingFace(text, config, 100).status();
    EXPECT_NE(std::string(status.message()).find("generation_config.json: eos_token_id"),
              std::string::npos)
        << status;
  }
  EXPECT_FALSE(GenerationDefaultsFromHuggingFace(R"({"top_p": 2})", config, 100).ok());
  EXPECT_FALSE(GenerationDefaultsFromHuggingFace("[", config, 100).ok());
}

TEST(ChatTemplate, OfAFolderIsFoundInEitherFile) {
  const std::string string_form = R"({"chat_template": "A"})";
  const std::string list_form = R"({"chat_template": [{"name": "tool_use", "template": "T"},
                                                      {"name": "default", "template": "D"}]})";
  EXPECT_EQ(*ChatTemplateFromHuggingFace("J", string_form), "J");
  EXPECT_EQ(*ChatTemplateFromHuggingFace("", string_form), "A");
  EXPECT_EQ(*ChatTemplateFromHuggingFace("", list_form), "D");
  EXPECT_EQ(*ChatTemplateFromHuggingFace("", "{}"), std::nullopt);
  EXPECT_EQ(*ChatTemplateFromHuggingFace("", ""), std::nullopt);
  for (const char* text : {R"({"chat_template": 3})", R"({"chat_template": [1]})",
                           R"({"chat_template": [{"name": "default"}]})", "{"}) {
    EXPECT_EQ(ChatTemplateFromHuggingFace("", text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

}  // namespace
}  // namespace thresher
