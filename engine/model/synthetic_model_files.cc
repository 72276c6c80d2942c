#include "engine/model/synthetic_model_files.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/weight_table.h"
#include "engine/text/numbered_tokenizer.h"

namespace thresher {
namespace {

constexpr std::string_view kPrefix = "synthetic:";
constexpr std::uint16_t kBf16One = 0x3f80;
// Logits of trained models spread so far, about; the other matrices keep a row's spread as it is.
constexpr double kLogitDeviation = 3;

ModelConfig Llama3(int num_layers, int hidden_size, int intermediate_size, int num_heads) {
  ModelConfig config;
  config.family = "llama";
  config.num_layers = num_layers;
  config.hidden_size = hidden_size;
  config.intermediate_size = intermediate_size;
  config.num_heads = num_heads;
  config.num_kv_heads = 8;
  config.head_dim = 128;
  config.vocab_size = 128256;
  config.max_position = 131072;
  config.rope.theta = 500000;
  config.rope.scaling = RopeScaling::kLlama3;
  config.rope.factor = 8;
  config.rope.original_max_position = 8192;
  config.rope.rotary_dim = config.head_dim;
  return config;
}

ModelConfig Qwen3Of8B() {
  ModelConfig config;
  config.family = "qwen3";
  config.num_layers = 36;
  config.hidden_size = 4096;
  config.intermediate_size = 12288;
  config.num_heads = 32;
  config.num_kv_heads = 8;
  config.head_dim = 128;
  config.vocab_size = 151936;
  config.max_position = 40960;
  config.rms_norm_epsilon = 1e-6;
  config.qk_norm = true;
  config.rope.theta = 1e6;
  config.rope.rotary_dim = config.head_dim;
  return config;
}

// Runs in a test; its head size is one that every device has its fast kernels for.
ModelConfig Tiny() {
  ModelConfig config = Llama3(2, 256, 512, 4);
  config.num_kv_heads = 2;
  config.head_dim = config.rope.rotary_dim = 64;
  config.vocab_size = 1024;
  return config;
}

struct Shape {
  std::string_view name;
  ModelConfig config;
};

std::vector<Shape> Shapes() {
  return {{"llama-3.1-8b", Llama3(32, 4096, 14336, 32)},
          {"llama-3.1-70b", Llama3(80, 8192, 28672, 64)},
          {"qwen3-8b", Qwen3Of8B()},
          {"tiny", Tiny()}};
}

class SyntheticModelFiles final : public ModelFiles {
 public:
  explicit SyntheticModelFiles(ModelConfig config) : config_(std::move(config)) {
    const std::vector<ExpectedWeight> weights = ExpectedWeights(config_);
    std::int64_t longest = 0;
    for (const ExpectedWeight& weight : weights) {
      if (weight.is_vector) longest = std::max(longest, weight.rows * weight.cols);
    }
    ones_.assign(static_cast<std::size_t>(longest), kBf16One);
    for (const ExpectedWeight& weight : weights) {
      total_bytes_ += weight.rows * weight.cols * BlockBytes(WeightFormat::kBF16);
      // The seed is the weight's number, so that no two weights are alike.
      sources_.emplace(weight.name, SourceOf(weight, sources_.size() + 1));
    }
  }

  const ModelConfig& config() const override { return config_; }
  const GenerationDefaults& generation_defaults() const override { return defaults_; }
  absl::StatusOr<WeightSource> Weight(std::string_view name) const override {
    const auto found = sources_.find(std::string(name));
    if (found != sources_.end()) return found->second;
    return absl::NotFoundError(absl::StrCat("the model has no weight '", std::string(name), "'"));
  }
  bool HasWeight(std::string_view name) const override {
    return sources_.contains(std::string(name));
  }
  std::int64_t total_weight_bytes() const override { return total_bytes_; }
  void ReleasePages() const override {}
  absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer() const override {
    return std::make_unique<NumberedTokenizer>(config_.vocab_size);
  }
  std::optional<std::string> chat_template() const override { return std::nullopt; }

 private:
  // A row of unit spread stays one: its products have the variance cols · deviation². Rows of the
  // embedding are such rows.
  static float DeviationOf(const ExpectedWeight& weight) {
    if (weight.name == "model.embed_tokens.weight") return 1;
    const double even = 1 / std::sqrt(static_cast<double>(weight.cols));
    return static_cast<float>(weight.name == "lm_head.weight" ? kLogitDeviation * even : even);
  }

  WeightSource SourceOf(const ExpectedWeight& weight, std::uint64_t seed) const {
    WeightSource source{.format = WeightFormat::kBF16, .rows = weight.rows, .cols = weight.cols};
    if (weight.is_vector) {
      source.bytes = reinterpret_cast<const std::byte*>(ones_.data());
    } else {
      source.generated = GeneratedNumbers{.seed = seed, .deviation = DeviationOf(weight)};
    }
    return source;
  }

  const ModelConfig config_;
  const GenerationDefaults defaults_;
  std::vector<std::uint16_t> ones_;  // bf16, as many as the longest vector has
  std::unordered_map<std::string, WeightSource> sources_;
  std::int64_t total_bytes_ = 0;
};

}  // namespace

bool IsSyntheticModel(const std::string& path) { return path.starts_with(kPrefix); }

absl::StatusOr<std::unique_ptr<ModelFiles>> OpenSyntheticModel(const std::string& path) {
  const std::string_view name = std::string_view(path).substr(kPrefix.size());
  std::string names;
  for (const Shape& shape : Shapes()) {
    if (shape.name == name) return std::make_unique<SyntheticModelFiles>(shape.config);
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(shape.name));
  }
  return absl::NotFoundError(
      absl::StrCat(path, ": there is no such shape; it must be one of ", names));
}

}  // namespace thresher
