// In which order waiting requests are tried: priority first, then arrival, and nobody for ever
// last.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace thresher {

// A sorted queue of request indices. The key of a request is
//   arrival + priority * arrivals_per_priority,
// lower first, so that one step of priority is worth that many arrivals: with a queue shorter than
// that, priority decides, and yet a request is overtaken by a bounded number of later ones. A
// preempted request comes back with its first arrival and so stands before its equals.
//
// Allocates memory at construction only. Insert and Erase move at most half of the queue. Not
// thread-safe.
class QueueOrder final {
 public:
  // Holds at most `capacity` requests.
  QueueOrder(int capacity, std::int64_t arrivals_per_priority);

  int size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  // The request at a position, 0 the first.
  int request(int position) const { return entries_[begin_ + position].request; }

  void Insert(int request, int priority, std::int64_t arrival);
  void EraseAt(int position);
  void Erase(int request, int priority, std::int64_t arrival);

  // Times that others were admitted while the request at a position had to wait for room.
  int skips(int position) const { return entries_[begin_ + position].skips; }
  void CountSkip(int position) { ++entries_[begin_ + position].skips; }

  // Internal: not sorted.
  absl::Status CheckInvariants() const;

 private:
  struct Entry {
    std::int64_t key = 0;
    std::int64_t arrival = 0;
    std::int32_t request = 0;
    std::int32_t skips = 0;
    bool operator<(const Entry& other) const {
      return key != other.key ? key < other.key : arrival < other.arrival;
    }
  };

  std::int64_t KeyOf(int priority, std::int64_t arrival) const;

  std::int64_t arrivals_per_priority_;
  // [begin_, end_) is in use. Room at both ends makes the usual moves short.
  std::vector<Entry> entries_;
  int begin_;
  int end_;
};

}  // namespace thresher
