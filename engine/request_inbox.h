// Where requests and cancellations wait for the engine thread, and which requests are open. The one
// meeting point of caller threads and the engine thread besides the streams.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/open_request.h"

namespace thresher {

struct InboxCommand {
  enum class Kind { kSubmit, kCancel, kCancelChoice };
  Kind kind = Kind::kSubmit;
  std::shared_ptr<OpenRequest> request;
  int choice = 0;            // kCancelChoice
  absl::Status reason = {};  // kCancel: what the open choices end with
};

// Thread-safe. Shared by the engine and the handles, which may outlive it.
class RequestInbox final {
 public:
  struct Limits {
    int max_queued_requests = 0;  // choices, as the scheduler counts
    std::int64_t max_queued_prompt_tokens = 0;
  };
  explicit RequestInbox(const Limits& limits) : limits_(limits) {}

  // Callers. All of the requests or none; one Take gets them all. Unavailable after Close or Stop;
  // ResourceExhausted if the queue is full, counting what the scheduler has waiting; FieldError if
  // a request_id is open already.
  absl::Status Submit(std::span<const std::shared_ptr<OpenRequest>> requests);
  // No effect on a request that has ended.
  void Cancel(std::shared_ptr<OpenRequest> request, absl::Status reason);
  void CancelChoice(std::shared_ptr<OpenRequest> request, int choice);
  // NotFound.
  absl::Status CancelById(const std::string& request_id, absl::Status reason);
  // Later Submits get `refusal`.
  void Close(absl::Status refusal);
  // Cancels every open request. Close first, or new ones may follow.
  void CancelAll(const absl::Status& reason);
  // True once no request is open; false if `timeout` has passed before.
  bool WaitUntilNoneOpen(absl::Duration timeout);
  // Makes Take return false.
  void Stop();

  // Engine thread. Takes what has come; with `wait`, blocks until something has, Stop was called or
  // `timeout` has passed. False after Stop. The queue's state is what the scheduler holds now.
  bool Take(int num_waiting, std::int64_t queued_prompt_tokens, bool wait, absl::Duration timeout,
            std::vector<InboxCommand>& commands);
  // Engine thread: frees the request's id; then, after its last event was published, forgets it.
  void ReleaseId(const OpenRequest& request);
  void CountEnded(const OpenRequest& request);
  int num_open() const;

 private:
  const Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable commands_came_, none_open_;
  std::vector<InboxCommand> commands_;
  absl::flat_hash_map<const OpenRequest*, std::shared_ptr<OpenRequest>> open_;
  absl::flat_hash_map<std::string, std::shared_ptr<OpenRequest>> by_id_;
  absl::Status refusal_;
  bool stopped_ = false;
  int num_queued_ = 0;
  std::int64_t queued_prompt_tokens_ = 0;
};

}  // namespace thresher
