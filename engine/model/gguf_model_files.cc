#include "engine/model/gguf_model_files.h"

#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/gguf_config.h"
#include "engine/model/gguf_file.h"
#include "engine/model/gguf_tensor_names.h"
#include "engine/model/model_registry.h"
#include "engine/model/tokenizer_check.h"
#include "engine/model/weight_table.h"

namespace thresher {
namespace {

// Within each head the file has the rows of the pairs (0, dim/2), (1, dim/2 + 1), … side by side,
// so Hugging Face's row `half · dim/2 + pair` is stored at `2 · pair + half`.
std::vector<std::int32_t> UnpermutedRows(int num_heads, int head_dim) {
  std::vector<std::int32_t> order;
  order.reserve(static_cast<std::size_t>(num_heads) * static_cast<std::size_t>(head_dim));
  for (int head = 0; head < num_heads; ++head) {
    for (int half = 0; half < 2; ++half) {
      for (int pair = 0; pair < head_dim / 2; ++pair) {
        order.push_back(head * head_dim + 2 * pair + half);
      }
    }
  }
  return order;
}

bool Contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

class GgufModelFiles final : public ModelFiles {
 public:
  static absl::StatusOr<std::unique_ptr<ModelFiles>> Open(const std::string& path) {
    absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Open(path);
    if (!file.ok()) return file.status();
    std::unique_ptr<GgufModelFiles> model(new GgufModelFiles(path, *std::move(file)));
    if (absl::Status status = model->Read(); !status.ok()) {
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
  void ReleasePages() const override { file_->ReleasePages(); }
  absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer() const override {
    return CheckTokenizer(TokenizerFromGguf(*file_), config_.vocab_size, path_);
  }
  std::optional<std::string> chat_template() const override {
    const std::optional<std::string_view> text = file_->String("tokenizer.chat_template");
    return text.has_value() ? std::optional<std::string>(*text) : std::nullopt;
  }

 private:
  GgufModelFiles(std::string path, std::unique_ptr<GgufFile> file)
      : path_(std::move(path)), file_(std::move(file)) {}

  absl::Status Read() {
    if (const std::int64_t parts = file_->Int("split.count").value_or(1); parts > 1) {
      return absl::UnimplementedError(
          absl::StrCat("metadata 'split.count' is ", parts,
                       ": a model in parts is not read; join them with llama-gguf-split --merge"));
    }
    absl::StatusOr<ModelConfig> config = ModelConfigFromGguf(*file_);
    if (!config.ok()) return config.status();
    config_ = *std::move(config);
    absl::StatusOr<GenerationDefaults> defaults =
        GenerationDefaultsFromGguf(*file_, config_.vocab_size);
    if (!defaults.ok()) return defaults.status();
    defaults_ = *std::move(defaults);
    if (FindFamily(config_.family)->gguf_permutes_qk) {
      q_rows_ = UnpermutedRows(config_.num_heads, config_.head_dim);
      k_rows_ = UnpermutedRows(config_.num_kv_heads, config_.head_dim);
    }
    return CollectWeights();
  }

  // Every tensor is used, or the model is not the one that the metadata describes.
  absl::Status CollectWeights() {
    std::unordered_set<std::string> used = {"rope_freqs.weight"};
    for (const ExpectedWeight& expected : ExpectedWeights(config_)) {
      const std::string name = GgufTensorName(expected.name).value_or(expected.name);
      const GgufTensor* tensor = file_->FindTensor(name);
      if (tensor == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' is missing"));
      }
      const StoredWeight stored{.format = tensor->format,
                                .shape = tensor->shape,
                                .bytes = tensor->bytes.data(),
                                .num_bytes = static_cast<std::int64_t>(tensor->bytes.size())};
      std::span<const std::int32_t> order;
      if (Contains(expected.name, "self_attn.q_proj")) order = q_rows_;
      if (Contains(expected.name, "self_attn.k_proj")) order = k_rows_;
      if (absl::Status status = weights_.Add(expected, stored, order); !status.ok()) return status;
      used.insert(name);
    }
    for (const GgufTensor& tensor : file_->tensors()) {
      if (!used.contains(std::string(tensor.name))) {
        return absl::UnimplementedError(absl::StrCat("tensor '", std::string(tensor.name),
                                                     "' is no part of family ", config_.family));
      }
    }
    return absl::OkStatus();
  }

  std::string path_;
  std::unique_ptr<GgufFile> file_;
  ModelConfig config_;
  GenerationDefaults defaults_;
  std::vector<std::int32_t> q_rows_, k_rows_;  // empty: stored in order
  WeightTable weights_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ModelFiles>> OpenGgufModel(const std::string& path) {
  return GgufModelFiles::Open(path);
}

}  // namespace thresher
