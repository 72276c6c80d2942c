// From the engine thread to the gRPC stream thread: which calls have news.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "engine/request.h"
#include "server/task_queue.h"

namespace thresher {

// One task an engine step, however many calls it woke. Add and Remove from any thread. Outlives
// every request that it was given to; the queue, of one thread, outlives it.
class CallWakes final : public StreamListener {
 public:
  explicit CallWakes(TaskQueue& stream_thread) : stream_thread_(stream_thread) {}

  // `wake` runs on the stream thread until Remove, and once after it at most.
  std::uint64_t Add(std::function<void()> wake);
  void Remove(std::uint64_t tag);

  void OnEventsReady(std::span<const std::uint64_t> tags) override;

 private:
  void Deliver();

  TaskQueue& stream_thread_;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::function<void()>> wakes_;
  std::vector<std::uint64_t> ready_;
  std::uint64_t next_tag_ = 1;
};

}  // namespace thresher
