#include "kernels/cpu/rank_barrier.h"

namespace thresher {
namespace {

// About 10 us: longer than ranks in step are apart, shorter than a step by far.
constexpr int kSpins = 400;

constexpr std::uint32_t kAborted = 1;
constexpr std::uint32_t kMeeting = 2;

}  // namespace

bool RankBarrier::Arrive() {
  // Read before arriving: after the last arrival the phase may change at any moment.
  const std::uint32_t phase = phase_.load(std::memory_order_acquire);
  if ((phase & kAborted) != 0) return false;
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.fetch_add(kMeeting, std::memory_order_acq_rel);
    phase_.notify_all();
    return true;
  }
  std::uint32_t now = phase;
  for (int spin = 0; (now = phase_.load(std::memory_order_acquire)) == phase; ++spin) {
    if (spin < kSpins) {
      __builtin_ia32_pause();
    } else {
      phase_.wait(phase, std::memory_order_acquire);
    }
  }
  // A meeting that was held counts, though a rank may have left the group since.
  return now / kMeeting != phase / kMeeting;
}

void RankBarrier::Abort() {
  phase_.fetch_or(kAborted, std::memory_order_acq_rel);
  phase_.notify_all();
}

}  // namespace thresher
