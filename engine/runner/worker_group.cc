#include "engine/runner/worker_group.h"

#include <algorithm>
#include <utility>

namespace thresher {

WorkerGroup::WorkerGroup(int num_ranks, std::function<void()> on_failure)
    : on_failure_(std::move(on_failure)), num_done_(static_cast<std::size_t>(num_ranks), 0) {
  threads_.reserve(static_cast<std::size_t>(num_ranks));
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads_.emplace_back([this, rank] { RunRank(rank); });
  }
}

WorkerGroup::~WorkerGroup() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stops_ = true;
  }
  posted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::int64_t WorkerGroup::Post(Task task) {
  std::int64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    number = num_posted_++;
    tasks_[number % kMaxPosted] = std::move(task);
  }
  posted_.notify_all();
  return number;
}

absl::Status WorkerGroup::Wait(std::int64_t task_number) {
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock,
             [&] { return *std::min_element(num_done_.begin(), num_done_.end()) > task_number; });
  return failure_;
}

void WorkerGroup::Fail(const absl::Status& error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return;
  failure_ = error;
  if (on_failure_) on_failure_();
}

void WorkerGroup::RunRank(int rank) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    std::int64_t& num_done = num_done_[static_cast<std::size_t>(rank)];
    posted_.wait(lock, [&] { return stops_ || num_done < num_posted_; });
    if (num_done == num_posted_) return;
    if (failure_.ok()) {
      const Task& task = tasks_[num_done % kMaxPosted];
      lock.unlock();
      absl::Status status = task(rank);
      lock.lock();
      if (!status.ok() && failure_.ok()) {
        failure_ = std::move(status);
        if (on_failure_) on_failure_();
      }
    }
    ++num_done;
    done_.notify_all();
  }
}

}  // namespace thresher
