#include "engine/deadline_queue.h"

#include <algorithm>
#include <utility>

namespace thresher {

void DeadlineQueue::Add(absl::Time deadline, const std::shared_ptr<OpenRequest>& request) {
  if (heap_.size() >= prune_at_) Prune();
  heap_.push_back({deadline, request});
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

void DeadlineQueue::Prune() {
  std::erase_if(heap_, [](const Entry& entry) { return entry.request.expired(); });
  std::make_heap(heap_.begin(), heap_.end(), Later);
  prune_at_ = std::max(kMinPruned, 2 * heap_.size());
}

std::shared_ptr<OpenRequest> DeadlineQueue::TakeExpired(absl::Time now) {
  while (!heap_.empty() && heap_.front().deadline <= now) {
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    std::shared_ptr<OpenRequest> request = heap_.back().request.lock();
    heap_.pop_back();
    if (request != nullptr) return request;
  }
  return nullptr;
}

}  // namespace thresher
