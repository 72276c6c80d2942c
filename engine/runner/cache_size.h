// How many blocks of a KV cache a device has room for.
#pragma once

#include "absl/status/statusor.h"
#include "engine/runner/kv_cache_pool.h"
#include "kernels/device/device.h"

namespace thresher {

// The most blocks with which no more than `memory_fraction` of the device's total memory is held,
// counting all that is held already, other processes' memory too. `memory` is as it stands once
// everything but the cache has been allocated; shape.num_blocks is not read. At most 2^30 tokens.
// ResourceExhausted, naming --kv-memory-fraction and the bytes, if there is no room for one block.
absl::StatusOr<int> NumBlocksThatFit(const KvCacheShape& shape, double memory_fraction,
                                     const DeviceMemory& memory);

}  // namespace thresher
