#include "server/task_queue.h"

#include <iostream>
#include <utility>

#include "server/out_of_memory.h"

namespace thresher {

TaskQueue::TaskQueue(int num_threads) {
  for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Run(); });
}

TaskQueue::~TaskQueue() { Stop(); }

void TaskQueue::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void TaskQueue::Post(std::function<void()> task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  ready_.notify_one();
}

void TaskQueue::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    ready_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    if (const absl::Status status = WithinMemory(task); !status.ok()) {
      std::clog << "level=error event=task_dropped error=\"" << status.message() << "\"\n";
    }
    // Captures may be large; they go before the lock is taken again.
    task = nullptr;
    lock.lock();
  }
}

}  // namespace thresher
