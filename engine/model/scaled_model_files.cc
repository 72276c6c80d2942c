#include "engine/model/scaled_model_files.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

class ScaledModelFiles final : public ModelFiles {
 public:
  ScaledModelFiles(std::unique_ptr<ModelFiles> files, ModelConfig config)
      : files_(std::move(files)), config_(std::move(config)) {}

  const ModelConfig& config() const override { return config_; }
  const GenerationDefaults& generation_defaults() const override {
    return files_->generation_defaults();
  }
  absl::StatusOr<WeightSource> Weight(std::string_view name) const override {
    return files_->Weight(name);
  }
  bool HasWeight(std::string_view name) const override { return files_->HasWeight(name); }
  std::int64_t total_weight_bytes() const override { return files_->total_weight_bytes(); }
  void ReleasePages() const override { files_->ReleasePages(); }
  absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer() const override {
    return files_->LoadTokenizer();
  }
  std::optional<std::string> chat_template() const override { return files_->chat_template(); }

 private:
  const std::unique_ptr<ModelFiles> files_;
  const ModelConfig config_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ModelFiles>> StretchContext(std::unique_ptr<ModelFiles> files,
                                                           double factor) {
  // Written so that NaN fails.
  if (!(factor >= 1 && factor <= 64)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the context's factor is ", factor, "; it must be from 1 to 64"));
  }
  if (factor == 1) return files;
  ModelConfig config = files->config();
  if (config.rope.scaling != RopeScaling::kNone) {
    return absl::InvalidArgumentError("the model scales its rotary angles already");
  }
  if (config.sliding_window.has_value()) {
    return absl::InvalidArgumentError("the model has a sliding window");
  }
  config.rope.scaling = RopeScaling::kYarn;
  config.rope.factor = factor;
  config.rope.original_max_position = config.max_position;
  config.max_position = static_cast<int>(config.max_position * factor);
  if (absl::Status status = config.Validate(); !status.ok()) return status;
  return std::make_unique<ScaledModelFiles>(std::move(files), std::move(config));
}

}  // namespace thresher
