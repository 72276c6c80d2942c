#include "engine/model/hf_model_files.h"

#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/hf_chat_template.h"
#include "engine/model/hf_config.h"
#include "engine/model/mapped_file.h"
#include "engine/model/safetensors_folder.h"
#include "engine/model/tokenizer_check.h"
#include "engine/model/weight_table.h"

namespace thresher {
namespace {

constexpr std::size_t kMaxJsonBytes = 16 << 20;
constexpr std::size_t kMaxTokenizerBytes = 128 << 20;

// Empty if there is no such file.
absl::StatusOr<std::string> ReadOptional(const std::string& path, std::size_t max_bytes) {
  absl::StatusOr<std::string> text = ReadTextFile(path, max_bytes);
  if (absl::IsNotFound(text.status())) return std::string();
  return text;
}

class HuggingFaceModelFiles final : public ModelFiles {
 public:
  static absl::StatusOr<std::unique_ptr<ModelFiles>> Open(const std::string& path) {
    absl::StatusOr<std::string> config_json = ReadTextFile(path + "/config.json", kMaxJsonBytes);
    if (!config_json.ok()) return config_json.status();
    absl::StatusOr<SafetensorsFolder> weights = SafetensorsFolder::Open(path);
    if (!weights.ok()) return weights.status();
    std::unique_ptr<HuggingFaceModelFiles> model(
        new HuggingFaceModelFiles(path, *std::move(weights)));
    if (absl::Status status = model->Read(*config_json); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
    }
    return model;
  }

  const ModelConfig& config() const override { return config_; }
  const GenerationDefaults& generation_defaults() const override { return defaults_; }
  absl::StatusOr<WeightSource> Weight(std::string_view name) const override {
    return weights_.Find(name);
  }
  bool HasWeight(std::string_view name) const override { return weights_.Has(name); }
  std::int64_t total_weight_bytes() const override { return weights_.total_bytes(); }
  void ReleasePages() const override { files_.ReleasePages(); }
  std::optional<std::string> chat_template() const override { return chat_template_; }

  absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer() const override {
    const std::string json_path = path_ + "/tokenizer.json";
    absl::StatusOr<std::string> json = ReadOptional(json_path, kMaxTokenizerBytes);
    if (!json.ok()) return json.status();
    if (!json->empty()) {
      return CheckTokenizer(TokenizerFromJson(*json, tokenizer_config_), config_.vocab_size,
                            json_path);
    }
    const std::string model_path = path_ + "/tokenizer.model";
    absl::StatusOr<std::string> model = ReadOptional(model_path, kMaxTokenizerBytes);
    if (!model.ok()) return model.status();
    if (model->empty()) {
      return absl::NotFoundError(
          absl::StrCat(path_, ": has neither tokenizer.json nor tokenizer.model"));
    }
    return CheckTokenizer(TokenizerFromSentencePiece(*model, tokenizer_config_), config_.vocab_size,
                          model_path);
  }

 private:
  HuggingFaceModelFiles(std::string path, SafetensorsFolder files)
      : path_(std::move(path)), files_(std::move(files)) {}

  absl::Status Read(const std::string& config_json) {
    absl::StatusOr<ModelConfig> config = ModelConfigFromHuggingFace(config_json);
    if (!config.ok()) return config.status();
    config_ = *std::move(config);
    absl::StatusOr<std::string> generation =
        ReadOptional(path_ + "/generation_config.json", kMaxJsonBytes);
    if (!generation.ok()) return generation.status();
    absl::StatusOr<GenerationDefaults> defaults =
        GenerationDefaultsFromHuggingFace(*generation, config_json, config_.vocab_size);
    if (!defaults.ok()) return defaults.status();
    defaults_ = *std::move(defaults);
    absl::StatusOr<std::string> tokenizer_config =
        ReadOptional(path_ + "/tokenizer_config.json", kMaxJsonBytes);
    if (!tokenizer_config.ok()) return tokenizer_config.status();
    tokenizer_config_ = *std::move(tokenizer_config);
    absl::StatusOr<std::string> jinja = ReadOptional(path_ + "/chat_template.jinja", kMaxJsonBytes);
    if (!jinja.ok()) return jinja.status();
    absl::StatusOr<std::optional<std::string>> chat_template =
        ChatTemplateFromHuggingFace(*jinja, tokenizer_config_);
    if (!chat_template.ok()) return chat_template.status();
    chat_template_ = *std::move(chat_template);
    return CollectWeights();
  }

  absl::Status CollectWeights() {
    std::unordered_set<std::string> used;
    for (const ExpectedWeight& expected : ExpectedWeights(config_)) {
      const auto found = files_.tensors().find(expected.name);
      if (found == files_.tensors().end()) {
        return absl::InvalidArgumentError(absl::StrCat("weight '", expected.name, "' is missing"));
      }
      const SafetensorsTensor& tensor = *found->second;
      const StoredWeight stored{.format = tensor.format,
                                .shape = tensor.shape,
                                .bytes = tensor.bytes.data(),
                                .num_bytes = static_cast<std::int64_t>(tensor.bytes.size())};
      if (absl::Status status = weights_.Add(expected, stored, {}); !status.ok()) return status;
      used.insert(expected.name);
    }
    for (const auto& [name, tensor] : files_.tensors()) {
      // Old files keep the frequencies, which follow from the configuration; tied ones may keep a
      // copy of the embedding.
      const bool is_known_extra = name.ends_with("rotary_emb.inv_freq") ||
                                  (name == "lm_head.weight" && config_.tied_embeddings);
      if (!is_known_extra && !used.contains(name)) {
        return absl::UnimplementedError(
            absl::StrCat("weight '", name, "' is no part of family ", config_.family));
      }
    }
    return absl::OkStatus();
  }

  std::string path_;
  SafetensorsFolder files_;
  ModelConfig config_;
  GenerationDefaults defaults_;
  std::string tokenizer_config_;  // empty: there is none
  std::optional<std::string> chat_template_;
  WeightTable weights_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ModelFiles>> OpenHuggingFaceModel(const std::string& path) {
  return HuggingFaceModelFiles::Open(path);
}

}  // namespace thresher
