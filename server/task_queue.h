// Threads that run posted tasks: for work that must not hold up an I/O thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace thresher {

// With one thread the tasks run in the order they were posted. Post from any thread, a task of its
// own included. A task answers for the memory it does not get (see out_of_memory.h); one that does
// not is logged and dropped.
class TaskQueue final {
 public:
  explicit TaskQueue(int num_threads);
  ~TaskQueue();
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  void Post(std::function<void()> task);
  // Runs what is still queued, then joins; the destructor does so too. No Post after it.
  void Stop();

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace thresher
