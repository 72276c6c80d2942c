#include "server/http/wake_registry.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <utility>  // before asio, whose headers use std::exchange without including it

namespace thresher {

std::uint64_t WakeRegistry::Add(std::function<void()> wake) {
  const std::uint64_t tag = next_tag_++;
  wakes_.emplace(tag, std::move(wake));
  return tag;
}

void WakeRegistry::OnEventsReady(std::span<const std::uint64_t> tags) {
  bool post = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // What is there already has been posted and not yet delivered; it takes these with it.
    post = ready_.empty();
    ready_.insert(ready_.end(), tags.begin(), tags.end());
  }
  if (post) boost::asio::post(io_, [this] { Deliver(); });
}

void WakeRegistry::Deliver() {
  delivering_.clear();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    delivering_.swap(ready_);
  }
  for (std::uint64_t tag : delivering_) {
    const auto found = wakes_.find(tag);
    if (found != wakes_.end()) found->second();
  }
}

}  // namespace thresher
