// Memory for packed weights, many to a chunk, on huge pages where the system gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

namespace thresher {

// Reading 4-bit weights once for each token touches a new 4 KiB page every 100 ns or so; on huge
// pages a product with one row took an eighth less time. Weights are smaller than a huge page, so
// they share chunks. A piece keeps its chunk alive, so it may outlive the arena. One thread at a
// time.
class WeightArena final {
 public:
  // `num_bytes` at a multiple of 64, uninitialised. ResourceExhausted, naming the bytes, if the
  // memory cannot be had.
  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(std::int64_t num_bytes);

 private:
  std::shared_ptr<std::byte> chunk_;
  std::int64_t used_ = 0;
  std::int64_t capacity_ = 0;
};

}  // namespace thresher
