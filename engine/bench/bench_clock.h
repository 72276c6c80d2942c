// Wall-clock and processor time of benchmarks.
#pragma once

#include <chrono>
#include <ctime>

namespace thresher {

using BenchClock = std::chrono::steady_clock;

inline double SecondsBetween(BenchClock::time_point from, BenchClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Of all threads of the process so far.
inline double ProcessorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace thresher
