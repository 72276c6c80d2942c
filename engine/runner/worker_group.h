// A thread for each rank. Every task runs on all ranks, in the order posted.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace thresher {

// Post and Wait are for one thread. The first error of any rank is kept: `on_failure` is called
// with it at once, on the failing rank's thread, so that it can free the ranks that wait for this
// one; tasks that a rank has not begun by then are skipped.
class WorkerGroup final {
 public:
  using Task = std::function<absl::Status(int rank)>;

  // `on_failure` may be null. It must not call back into the group.
  WorkerGroup(int num_ranks, std::function<void()> on_failure);
  // Runs what was posted, and joins.
  ~WorkerGroup();

  int num_ranks() const { return static_cast<int>(threads_.size()); }

  // Queues the task and returns its number; at most kMaxPosted are not waited for.
  std::int64_t Post(Task task);
  // Blocks until every rank has run or skipped the task. The group's first error, if it has one.
  absl::Status Wait(std::int64_t task_number);
  // As if a rank had failed with this error, which is the group's unless it has one.
  void Fail(const absl::Status& error);
  // Post and Wait. Not while other tasks are unfinished.
  absl::Status Run(Task task) { return Wait(Post(std::move(task))); }

  static constexpr int kMaxPosted = 4;

 private:
  void RunRank(int rank);

  const std::function<void()> on_failure_;
  std::mutex mutex_;
  std::condition_variable posted_, done_;
  Task tasks_[kMaxPosted];  // by number modulo kMaxPosted
  std::int64_t num_posted_ = 0;
  std::vector<std::int64_t> num_done_;  // by rank
  absl::Status failure_;
  bool stops_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace thresher
