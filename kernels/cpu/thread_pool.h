// A fork-join pool without OpenMP, for builds whose sanitizer must see every synchronisation.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace thresher {

// One caller at a time. Workers sleep between regions.
class ThreadPool final {
 public:
  // Starts num_threads − 1 workers; the caller of Run is thread 0.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  using Call = void (*)(const void* body, int thread);
  // Returns after call(body, thread) has returned for every thread.
  void Run(Call call, const void* body);

 private:
  void Work(int thread);

  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  std::uint64_t region_ = 0;  // regions started
  int running_ = 0;           // workers still inside the current region
  bool stop_ = false;
  Call call_ = nullptr;
  const void* body_ = nullptr;
  std::vector<std::thread> workers_;
};

}  // namespace thresher
