// The weights of a Hugging Face folder: one .safetensors file, or shards and their index.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/safetensors_file.h"

namespace thresher {

// Immutable; any thread.
class SafetensorsFolder final {
 public:
  // Opens model.safetensors, or else what model.safetensors.index.json names. NotFound if the
  // folder has neither, or lacks a shard; InvalidArgument if the index or a shard is damaged, or a
  // tensor is not in the shard that the index names.
  static absl::StatusOr<SafetensorsFolder> Open(const std::string& folder);

  // Every tensor by its name; they live as long as this object.
  const std::unordered_map<std::string, const SafetensorsTensor*>& tensors() const {
    return tensors_;
  }
  void ReleasePages() const;

 private:
  SafetensorsFolder() = default;

  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::unordered_map<std::string, const SafetensorsTensor*> tensors_;
};

}  // namespace thresher
