// From the engine thread to the I/O thread: which exchanges have news.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "engine/request.h"

namespace boost::asio {
class io_context;
}

namespace thresher {

// One post to the I/O thread an engine step, however many streams it woke. Add and Remove on the
// I/O thread only. The context outlives it, and it outlives every request that it was given to.
class WakeRegistry final : public StreamListener {
 public:
  explicit WakeRegistry(boost::asio::io_context& io) : io_(io) {}

  // `wake` runs on the I/O thread until Remove.
  std::uint64_t Add(std::function<void()> wake);
  void Remove(std::uint64_t tag) { wakes_.erase(tag); }

  void OnEventsReady(std::span<const std::uint64_t> tags) override;

 private:
  void Deliver();

  boost::asio::io_context& io_;
  std::unordered_map<std::uint64_t, std::function<void()>> wakes_;
  std::vector<std::uint64_t> delivering_;
  std::uint64_t next_tag_ = 1;
  std::mutex mutex_;
  std::vector<std::uint64_t> ready_;  // under mutex_
};

}  // namespace thresher
