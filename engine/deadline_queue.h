// Requests by deadline, earliest first.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "engine/open_request.h"

namespace thresher {

// The engine thread's own. Holds weak references, and drops those whose request is gone before it
// grows, so that far deadlines of short requests do not pile up: it has at most kMinPruned entries,
// or twice as many as requests were in memory when it last looked.
class DeadlineQueue final {
 public:
  // Amortised O(log n).
  void Add(absl::Time deadline, const std::shared_ptr<OpenRequest>& request);
  // The earliest request whose deadline has come, removed from the queue; null if none is left.
  std::shared_ptr<OpenRequest> TakeExpired(absl::Time now);
  int num_entries() const { return static_cast<int>(heap_.size()); }

  static constexpr std::size_t kMinPruned = 64;

 private:
  struct Entry {
    absl::Time deadline;
    std::weak_ptr<OpenRequest> request;
  };
  static bool Later(const Entry& a, const Entry& b) { return a.deadline > b.deadline; }

  void Prune();

  std::vector<Entry> heap_;
  std::size_t prune_at_ = kMinPruned;
};

}  // namespace thresher
