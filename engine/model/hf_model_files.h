// A model that is a Hugging Face folder.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/model_files.h"

namespace thresher {

// See ModelFiles::Open. `path` is a folder.
absl::StatusOr<std::unique_ptr<ModelFiles>> OpenHuggingFaceModel(const std::string& path);

}  // namespace thresher
