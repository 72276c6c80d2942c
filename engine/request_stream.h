// The events of one request on their way from the engine thread to its reader.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/time/time.h"
#include "engine/request.h"

namespace thresher {

// Held while listeners are called, and to detach one: after Detach no call reaches the listener.
// Shared by the engine and all its streams.
struct ListenerGate {
  std::mutex mutex;
};

// One writer (the engine thread), one reader. Bounded: the writer is told when the reader is too
// far behind, and never waits.
class RequestStream final {
 public:
  RequestStream(std::shared_ptr<ListenerGate> gate, StreamListener* listener, std::uint64_t tag,
                int capacity);

  enum class Reader { kReading, kTooManyUnread, kTooLongUnread };

  // Writer: moves the events in and leaves `events` empty. kTooLongUnread: the oldest unread event
  // was there before `now` - `timeout`.
  Reader Publish(std::vector<TokenEvent>& events, absl::Time now, absl::Duration timeout);
  // Writer: no event follows. Before the Publish of the last events, so that the reader who has
  // those sees the usage.
  void SetUsage(RequestUsage usage);
  void Finish(std::vector<TokenEvent>& last_events);
  // Writer, once, before the first token is published.
  void SetPromptLogprobs(PromptLogprobs scores);

  // Writer, with the gate's mutex held: null once detached.
  StreamListener* listener() const { return listener_; }
  std::uint64_t tag() const { return tag_; }

  // Reader: as in RequestHandle.
  bool Poll(std::vector<TokenEvent>& events);
  void Wait(absl::Duration timeout);
  RequestUsage usage() const;
  const PromptLogprobs* prompt_logprobs() const;
  // Blocks while listeners are being called.
  void Detach();

 private:
  const std::shared_ptr<ListenerGate> gate_;
  StreamListener* listener_;  // guarded by gate_
  const std::uint64_t tag_;
  const std::size_t capacity_;

  mutable std::mutex mutex_;
  std::condition_variable news_;
  bool reader_waits_ = false;
  bool finished_ = false;
  std::vector<TokenEvent> unread_;
  absl::Time unread_since_;
  RequestUsage usage_;
  std::unique_ptr<PromptLogprobs> prompt_logprobs_;
};

}  // namespace thresher
