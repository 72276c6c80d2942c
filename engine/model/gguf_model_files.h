// A model that is one GGUF file.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/model_files.h"

namespace thresher {

// See ModelFiles::Open.
absl::StatusOr<std::unique_ptr<ModelFiles>> OpenGgufModel(const std::string& path);

}  // namespace thresher
