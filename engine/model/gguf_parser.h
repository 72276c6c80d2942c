// The parse of a GGUF file's header: every metadata entry and every tensor, checked.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/gguf_file.h"
#include "engine/model/gguf_metadata.h"

namespace thresher {

struct GgufContents {
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // in the file's order
  std::unordered_map<std::string_view, std::size_t> tensor_index;
};

// `file` outlives the contents, which point into it. Memory is bounded by the file's size: a count
// is believed only as far as the bytes that it needs at least are there.
// InvalidArgument naming the offset, key or tensor; Unimplemented for another version, byte order
// or tensor format.
absl::StatusOr<GgufContents> ParseGguf(std::span<const std::byte> file);

}  // namespace thresher
