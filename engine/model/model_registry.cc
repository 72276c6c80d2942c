#include "engine/model/model_registry.h"

#include "absl/strings/str_cat.h"
#include "engine/model/families/families.h"

namespace thresher {

std::span<const ModelFamily> ModelFamilies() {
  static const ModelFamily kFamilies[] = {
      LlamaFamily(),
      MistralFamily(),
      Qwen2Family(),
      Qwen3Family(),
  };
  return kFamilies;
}

const ModelFamily* FindFamily(std::string_view name) {
  for (const ModelFamily& family : ModelFamilies()) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

const ModelFamily* FindHuggingFaceFamily(std::string_view architecture,
                                         std::string_view model_type) {
  for (const ModelFamily& family : ModelFamilies()) {
    if (architecture.empty() ? family.hf_model_type == model_type
                             : family.hf_architecture == architecture) {
      return &family;
    }
  }
  return nullptr;
}

const ModelFamily* FindGgufFamily(std::string_view architecture) {
  for (const ModelFamily& family : ModelFamilies()) {
    if (!architecture.empty() && family.gguf_architecture == architecture) return &family;
  }
  return nullptr;
}

absl::StatusOr<std::unique_ptr<CausalLm>> LoadCausalLm(const ModelFiles& files, Backend& backend,
                                                       TensorParallelGroup& group,
                                                       const CausalLmOptions& options,
                                                       const LoadProgress& progress) {
  const ModelFamily* family = FindFamily(files.config().family);
  if (family == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("model family '", files.config().family, "' is not known"));
  }
  return family->load(files, backend, group, options, progress);
}

}  // namespace thresher
