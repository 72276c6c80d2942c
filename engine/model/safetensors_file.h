// A .safetensors file, memory-mapped: where its tensors lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/mapped_file.h"
#include "kernels/device/dtype.h"

namespace thresher {

struct SafetensorsTensor {
  WeightFormat format{};
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

// Immutable; any thread.
class SafetensorsFile final {
 public:
  // As MappedFile::Open; InvalidArgument naming what is wrong and the tensor; Unimplemented naming
  // a tensor whose dtype is not F32, F16 or BF16. The tensors must fill the file without holes or
  // overlap, as the format demands.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);

  const std::unordered_map<std::string, SafetensorsTensor>& tensors() const { return tensors_; }
  // Null if there is none.
  const SafetensorsTensor* Find(const std::string& name) const;
  void ReleasePages() const { file_->ReleasePages(); }

 private:
  SafetensorsFile(std::unique_ptr<MappedFile> file,
                  std::unordered_map<std::string, SafetensorsTensor> tensors)
      : file_(std::move(file)), tensors_(std::move(tensors)) {}

  std::unique_ptr<MappedFile> file_;
  std::unordered_map<std::string, SafetensorsTensor> tensors_;
};

}  // namespace thresher
