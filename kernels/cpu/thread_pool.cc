#include "kernels/cpu/thread_pool.h"

namespace thresher {

ThreadPool::ThreadPool(int num_threads) {
  workers_.reserve(num_threads - 1);
  for (int thread = 1; thread < num_threads; ++thread) {
    workers_.emplace_back([this, thread] { Work(thread); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(Call call, const void* body) {
  {
    std::lock_guard lock(mutex_);
    call_ = call;
    body_ = body;
    running_ = static_cast<int>(workers_.size());
    ++region_;
  }
  start_.notify_all();
  call(body, 0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return running_ == 0; });
}

void ThreadPool::Work(int thread) {
  std::uint64_t seen = 0;
  for (;;) {
    std::unique_lock lock(mutex_);
    start_.wait(lock, [&] { return stop_ || region_ != seen; });
    if (stop_) return;
    seen = region_;
    const Call call = call_;
    const void* body = body_;
    lock.unlock();
    call(body, thread);
    lock.lock();
    if (--running_ == 0) done_.notify_one();
  }
}

}  // namespace thresher
