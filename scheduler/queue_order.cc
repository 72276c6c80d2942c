#include "scheduler/queue_order.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "scheduler/broken_invariant.h"

namespace thresher {

QueueOrder::QueueOrder(int capacity, std::int64_t arrivals_per_priority)
    : arrivals_per_priority_(arrivals_per_priority),
      entries_(static_cast<std::size_t>(2) * capacity + 2),
      begin_(static_cast<int>(entries_.size()) / 2),
      end_(begin_) {}

std::int64_t QueueOrder::KeyOf(int priority, std::int64_t arrival) const {
  return arrival + priority * arrivals_per_priority_;
}

void QueueOrder::Insert(int request, int priority, std::int64_t arrival) {
  const int capacity = static_cast<int>(entries_.size());
  RequireInvariant(size() < capacity / 2, "the waiting queue is over its capacity", size(),
                   capacity);
  const Entry entry{KeyOf(priority, arrival), arrival, request, 0};
  if (begin_ == 0 || end_ == capacity) {
    // One end is reached: back to the middle. Happens once in capacity / 2 inserts at most.
    const int middle = (capacity - size()) / 2;
    const auto first = entries_.begin();
    if (middle < begin_) {
      std::move(first + begin_, first + end_, first + middle);
    } else {
      std::move_backward(first + begin_, first + end_, first + middle + size());
    }
    end_ = middle + size();
    begin_ = middle;
  }
  const auto first = entries_.begin() + begin_;
  const auto last = entries_.begin() + end_;
  const auto place = std::upper_bound(first, last, entry);
  if (place - first < last - place) {
    std::move(first, place, first - 1);
    *(place - 1) = entry;
    --begin_;
  } else {
    std::move_backward(place, last, last + 1);
    *place = entry;
    ++end_;
  }
}

void QueueOrder::EraseAt(int position) {
  const auto first = entries_.begin() + begin_;
  const auto last = entries_.begin() + end_;
  const auto place = first + position;
  if (place - first < last - place) {
    std::move_backward(first, place, place + 1);
    ++begin_;
  } else {
    std::move(place + 1, last, place);
    --end_;
  }
}

void QueueOrder::Erase(int request, int priority, std::int64_t arrival) {
  const auto first = entries_.begin() + begin_;
  const Entry entry{KeyOf(priority, arrival), arrival, request, 0};
  const auto place = std::lower_bound(first, entries_.begin() + end_, entry);
  const int position = static_cast<int>(place - first);
  RequireInvariant(position < size() && place->request == request,
                   "a waiting request is not in the queue", request, position);
  EraseAt(position);
}

absl::Status QueueOrder::CheckInvariants() const {
  for (int i = begin_; i + 1 < end_; ++i) {
    if (!(entries_[i] < entries_[i + 1])) {
      return absl::InternalError(absl::StrCat("the queue is not sorted at ", i - begin_));
    }
  }
  return absl::OkStatus();
}

}  // namespace thresher
