#include "engine/request_stream.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace thresher {
namespace {

void MoveAppend(std::vector<TokenEvent>& from, std::vector<TokenEvent>& to) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  from.clear();
}

}  // namespace

RequestStream::RequestStream(std::shared_ptr<ListenerGate> gate, StreamListener* listener,
                             std::uint64_t tag, int capacity)
    : gate_(std::move(gate)),
      listener_(listener),
      tag_(tag),
      capacity_(static_cast<std::size_t>(capacity)) {}

RequestStream::Reader RequestStream::Publish(std::vector<TokenEvent>& events, absl::Time now,
                                             absl::Duration timeout) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (unread_.empty()) unread_since_ = now;
  MoveAppend(events, unread_);
  if (reader_waits_) news_.notify_one();
  if (unread_.size() > capacity_) return Reader::kTooManyUnread;
  if (now - unread_since_ > timeout) return Reader::kTooLongUnread;
  return Reader::kReading;
}

void RequestStream::SetUsage(RequestUsage usage) {
  const std::lock_guard<std::mutex> lock(mutex_);
  usage_ = std::move(usage);
}

void RequestStream::Finish(std::vector<TokenEvent>& last_events) {
  const std::lock_guard<std::mutex> lock(mutex_);
  MoveAppend(last_events, unread_);
  finished_ = true;
  if (reader_waits_) news_.notify_one();
}

void RequestStream::SetPromptLogprobs(PromptLogprobs scores) {
  const std::lock_guard<std::mutex> lock(mutex_);
  prompt_logprobs_ = std::make_unique<PromptLogprobs>(std::move(scores));
}

bool RequestStream::Poll(std::vector<TokenEvent>& events) {
  const std::lock_guard<std::mutex> lock(mutex_);
  MoveAppend(unread_, events);
  return !finished_;
}

void RequestStream::Wait(absl::Duration timeout) {
  // The longest wait that every clock can add to its present time.
  constexpr absl::Duration kLongest = absl::Hours(24);
  std::unique_lock<std::mutex> lock(mutex_);
  reader_waits_ = true;
  news_.wait_for(lock, absl::ToChronoNanoseconds(std::min(timeout, kLongest)),
                 [this] { return finished_ || !unread_.empty(); });
  reader_waits_ = false;
}

RequestUsage RequestStream::usage() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return usage_;
}

const PromptLogprobs* RequestStream::prompt_logprobs() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return prompt_logprobs_.get();
}

void RequestStream::Detach() {
  const std::lock_guard<std::mutex> lock(gate_->mutex);
  listener_ = nullptr;
}

}  // namespace thresher
