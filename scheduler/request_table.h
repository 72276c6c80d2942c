// The requests that are alive, waiting or running: what was asked and what is remembered of them.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "scheduler/ids.h"
#include "scheduler/prefix_salt.h"

namespace thresher {

inline constexpr int kNone = -1;

enum class RequestStage : std::uint8_t {
  kQueued,      // in the queue
  kFollowing,   // waits for its prefix leader
  kRunning,     // has a sequence
  kPreempting,  // preempted; its sequence is still named by a plan in flight
};

struct Request {
  RequestId id{};
  // The prompt and, after a preemption, the tokens generated before it.
  std::vector<TokenId> known;
  std::vector<SaltSpan> salts;
  int prompt_length = 0;
  int max_tokens = 0;        // prompt and output at most
  bool preemptible = false;  // holds no promise for all of max_tokens
  bool use_prefix_cache = true;
  bool prompt_computed = false;
  int priority = 0;
  int chunk_multiple = 1;
  std::int64_t arrival = 0;  // order of submission
  absl::Time submitted;
  absl::Duration queue_time = absl::InfiniteDuration();  // until the first admission

  RequestStage stage = RequestStage::kQueued;
  int sequence = kNone;  // while running or preempting
  int num_preemptions = 0;
  int num_prefix_hit_tokens = 0;  // of the first admission

  // Those that wait for this request's prompt, as a list.
  int leader = kNone;
  int first_follower = kNone;
  int next_follower = kNone;

  // Why a try to admit it is pointless for now: nothing was released since it did not fit.
  std::int64_t tried_at_release = -1;
  bool looked_up = false;
  int hit_estimate = 0;  // tokens, of the last lookup
};

// Requests by index, found by id. Allocates memory at construction only. Not thread-safe.
class RequestTable final {
 public:
  explicit RequestTable(int capacity);

  int size() const { return static_cast<int>(entries_.size() - free_.size()); }
  Request& operator[](int index) { return entries_[index]; }
  const Request& operator[](int index) const { return entries_[index]; }
  // kNone if there is none.
  int Find(RequestId id) const;
  int Add(Request request);
  void Remove(int index);

  template <typename Visitor>
  void ForEach(Visitor visit) const {
    for (const auto& [id, index] : index_of_) visit(index, entries_[index]);
  }

 private:
  std::vector<Request> entries_;
  std::vector<int> free_;
  absl::flat_hash_map<RequestId, int> index_of_;
};

}  // namespace thresher
