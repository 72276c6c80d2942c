#include "server/grpc/call_wakes.h"

#include <utility>

namespace thresher {

std::uint64_t CallWakes::Add(std::function<void()> wake) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::uint64_t tag = next_tag_++;
  wakes_.emplace(tag, std::move(wake));
  return tag;
}

void CallWakes::Remove(std::uint64_t tag) {
  const std::lock_guard<std::mutex> lock(mutex_);
  wakes_.erase(tag);
}

void CallWakes::OnEventsReady(std::span<const std::uint64_t> tags) {
  bool post = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    post = ready_.empty();
    ready_.insert(ready_.end(), tags.begin(), tags.end());
  }
  if (post) stream_thread_.Post([this] { Deliver(); });
}

void CallWakes::Deliver() {
  std::vector<std::function<void()>> due;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (std::uint64_t tag : ready_) {
      const auto found = wakes_.find(tag);
      if (found != wakes_.end()) due.push_back(found->second);
    }
    ready_.clear();
  }
  for (const std::function<void()>& wake : due) wake();
}

}  // namespace thresher
