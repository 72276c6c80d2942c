#include "engine/runner/cache_size.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 30;

}  // namespace

absl::StatusOr<int> NumBlocksThatFit(const KvCacheShape& shape, double memory_fraction,
                                     const DeviceMemory& memory) {
  KvCacheShape one = shape;
  one.num_blocks = 1;
  const std::int64_t block_bytes = CacheBytes(one);
  const auto limit =
      static_cast<std::int64_t>(memory_fraction * static_cast<double>(memory.total_bytes));
  const std::int64_t held = memory.total_bytes - memory.free_bytes;
  const std::int64_t blocks =
      std::min((limit - held) / block_bytes, kMostTokens / shape.block_size);
  if (limit >= held && blocks >= 1) return static_cast<int>(blocks);
  return absl::ResourceExhaustedError(
      absl::StrCat("--kv-memory-fraction ", memory_fraction, " of ", memory.total_bytes >> 20,
                   " MiB leaves no room for a KV cache: ", held >> 20,
                   " MiB are taken by the model, its workspaces and others, and a block of ",
                   shape.block_size, " tokens takes ", block_bytes, " bytes"));
}

}  // namespace thresher
