// Requests by deadline, earliest first.
#pragma once

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "engine/open_request.h"

namespace thresher {

// The engine thread's own. A request that has ended meanwhile stays until its deadline, unless its
// memory is gone already: only weak references are held.
class DeadlineQueue final {
 public:
  void Add(absl::Time deadline, const std::shared_ptr<OpenRequest>& request);
  // The earliest request whose deadline has come, removed from the queue; null if none is left.
  std::shared_ptr<OpenRequest> TakeExpired(absl::Time now);

 private:
  struct Entry {
    absl::Time deadline;
    std::weak_ptr<OpenRequest> request;
  };
  static bool Later(const Entry& a, const Entry& b) { return a.deadline > b.deadline; }

  std::vector<Entry> heap_;
};

}  // namespace thresher
