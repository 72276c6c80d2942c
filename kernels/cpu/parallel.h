// The threads of one rank: fork, run, join. OpenMP's pool (shared with oneDNN) where the build has
// it, else a pool of our own, so that ThreadSanitizer sees every synchronisation.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace thresher {

class ThreadPool;

// One caller at a time. A region costs about a microsecond while the threads spin and several when
// they sleep, so ops fork once, and not at all below kSerialWork.
class ThreadTeam final {
 public:
  // num_threads >= 1, the caller counted.
  explicit ThreadTeam(int num_threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int num_threads() const { return num_threads_; }

  // Makes the calling thread's OpenMP regions, oneDNN's among them, as wide as this team.
  void BindCaller() const;

  // Calls body(thread) once for each thread in [0, num_threads) and returns when all have returned.
  // body must not throw and must not wait for another thread's call.
  template <typename Body>
  void ForEachThread(const Body& body) {
    if (num_threads_ == 1) {
      body(0);
      return;
    }
    Run([](const void* bound, int thread) { (*static_cast<const Body*>(bound))(thread); }, &body);
  }

  // Calls body(task, thread) for each task in [0, num_tasks). Threads take tasks in ascending order
  // as they become free, so unequal tasks go longest first.
  template <typename Body>
  void ParallelFor(std::int64_t num_tasks, const Body& body) {
    if (num_threads_ == 1 || num_tasks <= 1) {
      for (std::int64_t task = 0; task < num_tasks; ++task) body(task, 0);
      return;
    }
    std::atomic<std::int64_t> next{0};
    ForEachThread([&](int thread) {
      for (;;) {
        const std::int64_t task = next.fetch_add(1, std::memory_order_relaxed);
        if (task >= num_tasks) return;
        body(task, thread);
      }
    });
  }

  // Cuts [0, count) into one contiguous range a thread and calls body(begin, end, thread) for the
  // non-empty ones. Runs in the caller alone if count · cost_each is below kSerialWork, where a
  // fork costs more than it gives. cost_each: elements touched by one unit of count.
  template <typename Body>
  void ParallelRanges(std::int64_t count, std::int64_t cost_each, const Body& body) {
    if (count <= 0) return;
    if (num_threads_ == 1 || count == 1 || count * cost_each < kSerialWork) {
      body(std::int64_t{0}, count, 0);
      return;
    }
    ForEachThread([&](int thread) {
      const std::int64_t begin = count * thread / num_threads_;
      const std::int64_t end = count * (thread + 1) / num_threads_;
      if (begin < end) body(begin, end, thread);
    });
  }

  // Elements that one core passes over in about the time of a fork and join (16,384 floats at
  // about 10 elements a nanosecond are 1.6 us).
  static constexpr std::int64_t kSerialWork = 16384;

 private:
  using Call = void (*)(const void* body, int thread);
  void Run(Call call, const void* body);

  int num_threads_;
  std::unique_ptr<ThreadPool> pool_;  // null under OpenMP
};

}  // namespace thresher
