// A GGUF v2 or v3 file, memory-mapped: its metadata and where its tensors lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/dtype.h"

namespace thresher {

struct GgufTensor {
  std::string_view name;
  WeightFormat format{};
  std::vector<std::int64_t> shape;  // outermost first, as Hugging Face writes it
  std::span<const std::byte> bytes;
};

// Every count, offset and length is checked against the file before use. Immutable; any thread.
class GgufFile {
 public:
  // NotFound, or InvalidArgument naming what is wrong and where (byte offset, key or tensor).
  static absl::StatusOr<std::unique_ptr<GgufFile>> Open(const std::string& path);
  virtual ~GgufFile() = default;

  // Absent if the key is missing or of another type; integers of any width and bools are integers,
  // those above the range of int64 excepted. What is returned points into the file.
  virtual std::optional<std::int64_t> Int(std::string_view key) const = 0;
  virtual std::optional<double> Float(std::string_view key) const = 0;  // integers too
  virtual std::optional<std::string_view> String(std::string_view key) const = 0;
  virtual std::optional<std::vector<std::string_view>> Strings(std::string_view key) const = 0;
  virtual std::optional<std::vector<std::int64_t>> Ints(std::string_view key) const = 0;
  virtual std::optional<std::vector<float>> Floats(std::string_view key) const = 0;

  virtual std::span<const GgufTensor> tensors() const = 0;
  // Null if there is none.
  virtual const GgufTensor* FindTensor(std::string_view name) const = 0;
  // Takes the pages read so far out of resident memory; a later read maps them again.
  virtual void ReleasePages() const = 0;
};

}  // namespace thresher
