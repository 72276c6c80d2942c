// Host memory for packed weights and scratch: aligned to a cache line, or to a page if large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace thresher {

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using AlignedBuffer = std::unique_ptr<std::byte, FreeMemory>;

// At least one byte, uninitialised. ResourceExhausted, naming the bytes, if it cannot be had.
inline absl::StatusOr<AlignedBuffer> AllocateAligned(std::int64_t num_bytes) {
  constexpr std::int64_t kLine = 64, kPage = 4096;
  const std::int64_t alignment = num_bytes >= (1 << 20) ? kPage : kLine;
  const std::int64_t padded = (num_bytes / alignment + 1) * alignment;
  void* memory =
      std::aligned_alloc(static_cast<std::size_t>(alignment), static_cast<std::size_t>(padded));
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot allocate ", num_bytes, " bytes of host memory"));
  }
  return AlignedBuffer(static_cast<std::byte*>(memory));
}

}  // namespace thresher
