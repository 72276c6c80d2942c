#include "scheduler/request_table.h"

#include <utility>

#include "scheduler/broken_invariant.h"

namespace thresher {

RequestTable::RequestTable(int capacity) : entries_(capacity) {
  free_.reserve(capacity);
  for (int i = capacity - 1; i >= 0; --i) free_.push_back(i);
  // Twice the entries: erased ones leave marks, and a map that is half full clears them in place.
  index_of_.reserve(static_cast<std::size_t>(2) * capacity);
}

int RequestTable::Find(RequestId id) const {
  const auto it = index_of_.find(id);
  return it == index_of_.end() ? kNone : it->second;
}

int RequestTable::Add(Request request) {
  RequireInvariant(!free_.empty(), "more requests are alive than may wait and run", size(),
                   static_cast<std::int64_t>(entries_.size()));
  const int index = free_.back();
  free_.pop_back();
  index_of_.emplace(request.id, index);
  entries_[index] = std::move(request);
  return index;
}

void RequestTable::Remove(int index) {
  index_of_.erase(entries_[index].id);
  entries_[index] = Request{};
  free_.push_back(index);
}

}  // namespace thresher
