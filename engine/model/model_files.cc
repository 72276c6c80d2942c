#include "engine/model/model_files.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "engine/model/gguf_model_files.h"
#include "engine/model/hf_model_files.h"
#include "engine/model/synthetic_model_files.h"

namespace thresher {

absl::StatusOr<std::unique_ptr<ModelFiles>> ModelFiles::Open(const std::string& path) {
  if (IsSyntheticModel(path)) return OpenSyntheticModel(path);
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return OpenHuggingFaceModel(path);
  if (path.ends_with(".safetensors") || path.ends_with(".json")) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": give the folder that holds it, or a .gguf file"));
  }
  return OpenGgufModel(path);
}

}  // namespace thresher
