#include "kernels/cpu/weight_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

constexpr std::int64_t kLine = 64;
constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
// Unused memory at the end of a chunk is never touched, so it costs address space only.
constexpr std::int64_t kChunkBytes = std::int64_t{64} << 20;

std::int64_t RoundUp(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

absl::StatusOr<std::shared_ptr<std::byte>> WeightArena::Allocate(std::int64_t num_bytes) {
  // At least one line, so that no two pieces are the same.
  const std::int64_t wanted = RoundUp(std::max<std::int64_t>(num_bytes, 1), kLine);
  if (wanted > capacity_ - used_) {
    const std::int64_t bytes = RoundUp(std::max(wanted, kChunkBytes), kHugePage);
    void* memory = std::aligned_alloc(kHugePage, static_cast<std::size_t>(bytes));
    if (memory == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot allocate ", bytes, " bytes of host memory for weights"));
    }
    // A refusal costs speed only.
    (void)madvise(memory, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
    chunk_ = std::shared_ptr<std::byte>(static_cast<std::byte*>(memory),
                                        [](std::byte* start) { std::free(start); });
    used_ = 0;
    capacity_ = bytes;
  }
  std::shared_ptr<std::byte> piece(chunk_, chunk_.get() + used_);
  used_ += wanted;
  return piece;
}

}  // namespace thresher
