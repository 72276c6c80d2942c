// Where the ranks of one process wait for each other.
#pragma once

#include <atomic>
#include <cstdint>

namespace thresher {

// Any number of uses. Spins for some microseconds, then sleeps in the kernel.
class RankBarrier final {
 public:
  explicit RankBarrier(int size) : size_(size) {}

  // True when all ranks have arrived; what a rank wrote before is visible to all after. False, at
  // once and ever after, if Abort was called before all arrived.
  bool Arrive();
  // Any thread, any number of times.
  void Abort();

 private:
  const int size_;
  std::atomic<int> arrived_{0};
  std::atomic<std::uint32_t> phase_{0};  // 2 · meetings held + 1 if aborted
};

}  // namespace thresher
