// Opening whole models: damaged ones are refused by name, and every part comes from the right file.
#include "engine/model/model_files.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "engine/model/weight_table.h"
#include "gtest/gtest.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/logits_golden.h"
#include "tests/support/reference/dequantize.h"
#include "tests/support/temp_folder.h"

namespace thresher {
namespace {

using nlohmann::json;
using testing::GgufBuilder;
using testing::TempFolder;

constexpr std::uint32_t kF32 = 0, kQ8_0 = 8;

// A GGUF model that can be damaged entry by entry: metadata and tensors by name.
struct GgufModel {
  struct Tensor {
    std::vector<std::uint64_t> shape;  // innermost first
    std::uint32_t type = kF32;
  };
  std::string architecture = "llama";
  std::vector<std::pair<std::string, std::uint32_t>> ints = {
      {"block_count", 1},          {"context_length", 64},      {"embedding_length", 32},
      {"feed_forward_length", 32}, {"attention.head_count", 4}, {"attention.head_count_kv", 2}};
  std::vector<std::pair<std::string, float>> floats = {{"attention.layer_norm_rms_epsilon", 1e-5f},
                                                       {"rope.freq_base", 10000.f}};
  std::vector<std::pair<std::string, std::string>> strings;
  std::vector<std::pair<std::string, Tensor>> tensors = {
      {"token_embd.weight", {{32, 40}}},   {"blk.0.attn_norm.weight", {{32}}},
      {"blk.0.attn_q.weight", {{32, 32}}}, {"blk.0.attn_k.weight", {{32, 16}}},
      {"blk.0.attn_v.weight", {{32, 16}}}, {"blk.0.attn_output.weight", {{32, 32}}},
      {"blk.0.ffn_norm.weight", {{32}}},   {"blk.0.ffn_gate.weight", {{32, 32}}},
      {"blk.0.ffn_up.weight", {{32, 32}}}, {"blk.0.ffn_down.weight", {{32, 32}}},
      {"output_norm.weight", {{32}}}};

  template <typename Pairs, typename Value>
  static void Set(Pairs& pairs, const std::string& key, Value value) {
    for (auto& pair : pairs) {
      if (pair.first == key) {
        pair.second = value;
        return;
      }
    }
    pairs.emplace_back(key, value);
  }
  void Int(const std::string& key, std::uint32_t value) { Set(ints, key, value); }
  void Float(const std::string& key, float value) { Set(floats, key, value); }
  void SetTensor(const std::string& name, Tensor tensor) { Set(tensors, name, tensor); }
  template <typename Pairs>
  static void Drop(Pairs& pairs, const std::string& key) {
    std::erase_if(pairs, [&](const auto& pair) { return pair.first == key; });
  }

  std::string Build() const {
    GgufBuilder builder;
    if (!architecture.empty()) builder.AddString("general.architecture", architecture);
    for (const auto& [key, value] : ints) builder.AddInt(architecture + "." + key, value);
    for (const auto& [key, value] : floats) builder.AddFloat(architecture + "." + key, value);
    for (const auto& [key, value] : strings) builder.AddString(architecture + "." + key, value);
    builder.AddInt("tokenizer.ggml.eos_token_id", eos);
    builder.AddInt("tokenizer.ggml.eot_token_id", 5);
    if (split_count > 1) builder.AddInt("split.count", split_count);
    for (const auto& [name, tensor] : tensors) {
      std::size_t elements = 1;
      for (const std::uint64_t size : tensor.shape) elements *= size;
      builder.AddTensor(name, tensor.shape, tensor.type,
                        std::string(tensor.type == kQ8_0 ? elements / 32 * 34 : elements * 4, 0));
    }
    return builder.Build();
  }
  std::uint32_t eos = 3;
  std::uint32_t split_count = 1;
};

struct GgufDamage {
  const char* name;
  std::function<void(GgufModel&)> make;
  const char* message;
};

const GgufDamage kGgufDamages[] = {
    {"architecture unknown", [](GgufModel& m) { m.architecture = "gpt2"; }, "'gpt2' is not known"},
    {"architecture missing", [](GgufModel& m) { m.architecture = ""; }, "general.architecture"},
    {"head_count 0", [](GgufModel& m) { m.Int("attention.head_count", 0); }, "num_heads is 0"},
    {"head_count_kv 0", [](GgufModel& m) { m.Int("attention.head_count_kv", 0); },
     "num_kv_heads is 0"},
    {"head_count_kv 3", [](GgufModel& m) { m.Int("attention.head_count_kv", 3); },
     "multiple of num_kv_heads"},
    {"block_count 0", [](GgufModel& m) { m.Int("block_count", 0); }, "num_layers is 0"},
    {"block_count 2", [](GgufModel& m) { m.Int("block_count", 2); }, "'blk.1.attn_norm.weight'"},
    {"block_count 2^32-1", [](GgufModel& m) { m.Int("block_count", 0xffffffff); },
     "llama.block_count"},
    {"block_count missing", [](GgufModel& m) { m.Drop(m.ints, "block_count"); }, "block_count"},
    {"context 0", [](GgufModel& m) { m.Int("context_length", 0); }, "max_position is 0"},
    {"embedding 64", [](GgufModel& m) { m.Int("embedding_length", 64); }, "embed_tokens"},
    {"feed_forward 64", [](GgufModel& m) { m.Int("feed_forward_length", 64); }, "gate_proj"},
    {"epsilon missing", [](GgufModel& m) { m.Drop(m.floats, "attention.layer_norm_rms_epsilon"); },
     "layer_norm_rms_epsilon"},
    {"epsilon NaN", [](GgufModel& m) { m.Float("attention.layer_norm_rms_epsilon", NAN); },
     "rms_norm_epsilon is nan"},
    {"epsilon 0", [](GgufModel& m) { m.Float("attention.layer_norm_rms_epsilon", 0); },
     "rms_norm_epsilon is 0"},
    {"theta NaN", [](GgufModel& m) { m.Float("rope.freq_base", NAN); }, "rope theta is nan"},
    {"theta infinite", [](GgufModel& m) { m.Float("rope.freq_base", INFINITY); },
     "rope theta is inf"},
    {"rope type unknown",
     [](GgufModel& m) { m.strings.emplace_back("rope.scaling.type", "spiral"); }, "'spiral'"},
    {"linear factor 0",
     [](GgufModel& m) {
       m.strings.emplace_back("rope.scaling.type", "linear");
       m.Float("rope.scaling.factor", 0);
     },
     "rope factor is 0"},
    {"yarn factor NaN",
     [](GgufModel& m) {
       m.strings.emplace_back("rope.scaling.type", "yarn");
       m.Float("rope.scaling.factor", NAN);
     },
     "rope factor is nan"},
    {"half rotary", [](GgufModel& m) { m.Int("rope.dimension_count", 4); }, "dimension_count"},
    {"value length", [](GgufModel& m) { m.Int("attention.value_length", 4); }, "value_length"},
    {"experts", [](GgufModel& m) { m.Int("expert_count", 8); }, "expert_count"},
    {"logit scale", [](GgufModel& m) { m.Float("logit_scale", 2); }, "logit_scale"},
    {"vocab_size", [](GgufModel& m) { m.Int("vocab_size", 41); }, "vocab_size is 41"},
    {"a part of several", [](GgufModel& m) { m.split_count = 2; }, "split.count"},
    {"eos past the vocabulary", [](GgufModel& m) { m.eos = 40; }, "eos_token_id"},
    {"tensor missing", [](GgufModel& m) { m.Drop(m.tensors, "blk.0.ffn_up.weight"); },
     "'blk.0.ffn_up.weight' is missing"},
    {"embedding missing", [](GgufModel& m) { m.Drop(m.tensors, "token_embd.weight"); },
     "token_embd.weight"},
    {"embedding a vector", [](GgufModel& m) { m.SetTensor("token_embd.weight", {{32}}); },
     "token_embd.weight"},
    {"shape turned",
     [](GgufModel& m) {
       m.SetTensor("blk.0.attn_k.weight", {{16, 32}});
     },
     "k_proj.weight' has shape [32, 16]"},
    {"norm a matrix",
     [](GgufModel& m) {
       m.SetTensor("output_norm.weight", {{32, 1}});
     },
     "model.norm.weight"},
    {"norm quantised",
     [](GgufModel& m) {
       m.SetTensor("output_norm.weight", {{32}, kQ8_0});
     },
     "Q8_0"},
    {"head of another size",
     [](GgufModel& m) {
       m.SetTensor("output.weight", {{32, 39}});
     },
     "lm_head.weight"},
    {"tensor of another family",
     [](GgufModel& m) { m.SetTensor("blk.0.attn_q_norm.weight", {{8}}); },
     "'blk.0.attn_q_norm.weight' is no part"},
    {"rope_freqs too short", [](GgufModel& m) { m.SetTensor("rope_freqs.weight", {{3}}); },
     "rope_freqs.weight"},
    {"rope_freqs of zeros", [](GgufModel& m) { m.SetTensor("rope_freqs.weight", {{4}}); },
     "rope_freqs is 0"},
    {"longrope factors", [](GgufModel& m) { m.SetTensor("rope_factors_long.weight", {{4}}); },
     "longrope"},
    {"qwen2 without biases", [](GgufModel& m) { m.architecture = "qwen2"; }, "attn_q.bias"},
    {"qwen3 without norms", [](GgufModel& m) { m.architecture = "qwen3"; }, "attn_q_norm"},
};

TEST(GgufModelFiles, RefusesDamageByName) {
  const TempFolder folder;
  for (const GgufDamage& damage : kGgufDamages) {
    GgufModel model;
    damage.make(model);
    const std::string path = folder.Write("m.gguf", model.Build());
    const absl::Status status = ModelFiles::Open(path).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status) || absl::IsUnimplemented(status))
        << damage.name << ": " << status;
    const std::string message(status.message());
    EXPECT_NE(message.find(damage.message), std::string::npos) << damage.name << ": " << message;
    EXPECT_NE(message.find(path), std::string::npos) << damage.name << ": " << message;
  }
}

TEST(GgufModelFiles, ReadsWhatMetadataAndTensorsSay) {
  const TempFolder folder;
  GgufModel model;
  model.Int("attention.sliding_window", 16);
  model.SetTensor("output.weight", {{32, 40}});
  auto files = ModelFiles::Open(folder.Write("tiny.model.gguf", model.Build()));
  ASSERT_TRUE(files.ok()) << files.status();
  const ModelConfig& config = (*files)->config();
  EXPECT_EQ(config.max_position, 16);
  EXPECT_EQ(config.sliding_window, 16);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_EQ(config.vocab_size, 40);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ((*files)->generation_defaults().end_tokens, (std::vector<TokenId>{3, 5}));
  EXPECT_EQ((*files)->chat_template(), std::nullopt);
  EXPECT_TRUE((*files)->HasWeight("lm_head.weight"));
  EXPECT_FALSE((*files)->HasWeight("output.weight"));
  EXPECT_EQ((*files)->Weight("none").status().code(), absl::StatusCode::kNotFound);
}

// Rows as they were before a converter put each head's pairs side by side.
TEST(GgufModelFiles, LlamaRowsComeInHuggingFacesOrder) {
  const TempFolder folder;
  GgufModel model;
  std::string file = model.Build();
  {
    auto opened = ModelFiles::Open(folder.Write("m.gguf", file));
    ASSERT_TRUE(opened.ok()) << opened.status();
    auto q = (*opened)->Weight("model.layers.0.self_attn.q_proj.weight");
    ASSERT_TRUE(q.ok());
    // Head 1's rows: Hugging Face's 8 + 0, 1, 2, 3 are the pairs' first halves.
    const std::vector<std::int32_t> head(q->row_order.begin() + 8, q->row_order.begin() + 16);
    EXPECT_EQ(head, (std::vector<std::int32_t>{8, 10, 12, 14, 9, 11, 13, 15}));
    EXPECT_EQ((*opened)->Weight("model.layers.0.self_attn.k_proj.weight")->row_order.size(), 16u);
    EXPECT_TRUE((*opened)->Weight("model.layers.0.self_attn.v_proj.weight")->row_order.empty());
  }
}

// Copies a tiny model's folder and damages it.
class HuggingFaceFolder {
 public:
  explicit HuggingFaceFolder(const std::string& model) {
    std::filesystem::copy(testing::GoldenPath("models/" + model), folder_.path(),
                          std::filesystem::copy_options::recursive);
  }
  const std::string& path() const { return folder_.path(); }
  void Write(const std::string& name, const std::string& text) { folder_.Write(name, text); }
  void Remove(const std::string& name) { std::filesystem::remove(path() + "/" + name); }
  json Config() const {
    std::ifstream file(path() + "/config.json");
    return json::parse(file);
  }
  void SetConfig(const char* key, const json& value) {
    json config = Config();
    config[key] = value;
    Write("config.json", config.dump());
  }

 private:
  TempFolder folder_;
};

struct FolderDamage {
  const char* name;
  const char* model;
  std::function<void(HuggingFaceFolder&)> make;
  absl::StatusCode code;
  const char* message;
};

TEST(HuggingFaceModelFiles, RefusesDamageByName) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kUnknown = absl::StatusCode::kUnimplemented;
  constexpr auto kMissing = absl::StatusCode::kNotFound;
  const FolderDamage damages[] = {
      {"no config", "llama31", [](auto& f) { f.Remove("config.json"); }, kMissing, "config.json"},
      {"no weights", "llama31", [](auto& f) { f.Remove("model.safetensors"); }, kMissing,
       "neither model.safetensors"},
      {"a shard gone", "qwen2_sharded",
       [](auto& f) { f.Remove("model-00002-of-00003.safetensors"); }, kMissing, "model-00002"},
      {"one layer more", "llama31", [](auto& f) { f.SetConfig("num_hidden_layers", 3); }, kInvalid,
       "'model.layers.2.input_layernorm.weight' is missing"},
      {"one layer less", "llama31", [](auto& f) { f.SetConfig("num_hidden_layers", 1); }, kUnknown,
       "is no part of family llama"},
      {"vocabulary", "llama31", [](auto& f) { f.SetConfig("vocab_size", 100); }, kInvalid,
       "embed_tokens.weight' has shape [99, 64]"},
      {"heads", "llama31", [](auto& f) { f.SetConfig("num_attention_heads", 4); }, kInvalid,
       "q_proj.weight"},
      {"KV heads", "llama31", [](auto& f) { f.SetConfig("num_key_value_heads", 2); }, kInvalid,
       "k_proj.weight"},
      {"head_dim ignored", "qwen3_bf16", [](auto& f) { f.SetConfig("head_dim", 16); }, kInvalid,
       "q_proj.weight"},
      {"biases not asked for", "llama_yarn_biases",
       [](auto& f) { f.SetConfig("attention_bias", false); }, kUnknown, "is no part"},
      {"biases missing", "llama31", [](auto& f) { f.SetConfig("attention_bias", true); }, kInvalid,
       "q_proj.bias' is missing"},
      {"head missing", "llama_tied_f16", [](auto& f) { f.SetConfig("tie_word_embeddings", false); },
       kInvalid, "'lm_head.weight' is missing"},
      {"generation_config", "llama31",
       [](auto& f) { f.Write("generation_config.json", "{\"eos_token_id\": 99}"); }, kInvalid,
       "generation_config.json: eos_token_id"},
      {"tokenizer_config", "llama31", [](auto& f) { f.Write("tokenizer_config.json", "{"); },
       kInvalid, "tokenizer_config.json"},
  };
  for (const FolderDamage& damage : damages) {
    HuggingFaceFolder folder(damage.model);
    ASSERT_TRUE(ModelFiles::Open(folder.path()).ok()) << damage.model;
    damage.make(folder);
    const absl::Status status = ModelFiles::Open(folder.path()).status();
    EXPECT_EQ(status.code(), damage.code) << damage.name << ": " << status;
    const std::string message(status.message());
    EXPECT_NE(message.find(damage.message), std::string::npos) << damage.name << ": " << message;
    EXPECT_NE(message.find(folder.path()), std::string::npos) << damage.name << ": " << message;
  }
}

TEST(HuggingFaceModelFiles, ReadsEveryFile) {
  HuggingFaceFolder folder("qwen2_sharded");
  auto files = ModelFiles::Open(folder.path());
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ((*files)->config().family, "qwen2");
  EXPECT_TRUE((*files)->config().qkv_bias);
  EXPECT_EQ((*files)->generation_defaults().end_tokens, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ((*files)->generation_defaults().temperature, 0.7);
  EXPECT_EQ((*files)->chat_template(), std::nullopt);
  std::int64_t total = 0;
  for (const ExpectedWeight& weight : ExpectedWeights((*files)->config())) {
    EXPECT_TRUE((*files)->HasWeight(weight.name)) << weight.name;
    total += weight.rows * weight.cols * 4;
  }
  EXPECT_EQ((*files)->total_weight_bytes(), total);
  folder.Write("chat_template.jinja", "{{ 1 }}");
  EXPECT_EQ((*ModelFiles::Open(folder.path()))->chat_template(), "{{ 1 }}");
}

TEST(HuggingFaceModelFiles, ATiedModelMayKeepACopyOfItsHead) {
  HuggingFaceFolder folder("llama31");
  folder.SetConfig("tie_word_embeddings", true);
  auto files = ModelFiles::Open(folder.path());
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_FALSE((*files)->HasWeight("lm_head.weight"));
}

TEST(ModelFiles, LettingPagesGoLosesNothing) {
  auto files = ModelFiles::Open(testing::GoldenPath("models/llama_mixed.gguf"));
  ASSERT_TRUE(files.ok()) << files.status();
  const auto read = [&] {
    return testing::Dequantize(*(*files)->Weight("model.layers.1.mlp.down_proj.weight"));
  };
  const std::vector<double> before = read();
  (*files)->ReleasePages();
  EXPECT_EQ(read(), before);
}

TEST(ModelFiles, SaysWhatToGive) {
  const TempFolder folder;
  EXPECT_EQ(ModelFiles::Open(folder.path() + "/none").status().code(), absl::StatusCode::kNotFound);
  const std::string path = testing::GoldenPath("models/llama31/model.safetensors");
  const absl::Status status = ModelFiles::Open(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("folder"), std::string::npos) << status;
}

TEST(ModelFiles, AModelWithoutTokenizerSaysSo) {
  auto files = ModelFiles::Open(testing::GoldenPath("models/llama31"));
  ASSERT_TRUE(files.ok()) << files.status();
  const absl::Status status = (*files)->LoadTokenizer().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(status.message()).find("tokenizer.json"), std::string::npos) << status;
}

}  // namespace
}  // namespace thresher
