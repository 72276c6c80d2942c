// Under which salts a request's blocks are written and looked up.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace thresher {

// From `first_token` on, blocks are written under one salt and looked up under one or two. Blocks
// under different salts never match. Ascending; the first starts at 0. Dense is {0, 0, 0}.
struct SaltSpan {
  int first_token = 0;
  std::uint64_t written = 0;
  std::uint64_t also_accepted = 0;
};

// The span that decides block `block_index`: the one that covers the block's last row. A block with
// any row at or past a border thus belongs to the later span, so that a block which decoding has
// written in part never passes for a block of the prompt.
const SaltSpan& SpanOfBlock(std::span<const SaltSpan> spans, int block_index, int block_size);

// InvalidArgument: no span, the first not at 0, or not ascending.
absl::Status ValidateSaltSpans(std::span<const SaltSpan> spans);

}  // namespace thresher
