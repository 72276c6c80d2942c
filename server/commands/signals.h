// SIGTERM and SIGINT for a process that drains: the first asks, the second ends at once.
#pragma once

#include <atomic>

namespace thresher {

// Construct it before any other thread starts, so that all of them leave these signals to its own.
// One a process; it lives until the process ends.
class Signals final {
 public:
  Signals();
  // While it is not set, the first signal ends the process at once: there is nothing to drain.
  void SetDrains() { drains_.store(true); }
  bool asked() const { return asked_.load(); }

 private:
  void Run();

  std::atomic<bool> drains_ = false;
  std::atomic<bool> asked_ = false;
};

}  // namespace thresher
