// The list of tensors of a GGUF file: what each is and where its bytes lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/byte_cursor.h"
#include "engine/model/gguf_file.h"

namespace thresher {

// Reads `count` descriptions at the cursor, which goes over `file`, and gives each its bytes behind
// them: aligned, inside the file, and no byte to two tensors. InvalidArgument or Unimplemented
// naming the tensor. Names may be equal.
absl::StatusOr<std::vector<GgufTensor>> ReadGgufTensors(ByteCursor& cursor, std::uint64_t count,
                                                        std::uint32_t alignment,
                                                        std::span<const std::byte> file);

}  // namespace thresher
