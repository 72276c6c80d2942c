#include "engine/request_inbox.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/request_error.h"
#include "engine/text/excerpt.h"

namespace thresher {
namespace {

std::int64_t PromptTokens(const OpenRequest& request) {
  return static_cast<std::int64_t>(request.choices.size()) * request.prompt_length();
}

}  // namespace

absl::Status RequestInbox::Submit(std::span<const std::shared_ptr<OpenRequest>> requests) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!refusal_.ok()) return refusal_;
  int num_choices = 0;
  std::int64_t prompt_tokens = 0;
  for (const std::shared_ptr<OpenRequest>& request : requests) {
    num_choices += static_cast<int>(request->choices.size());
    prompt_tokens += PromptTokens(*request);
  }
  if (num_choices > limits_.max_queued_requests) {
    return FieldError("n", absl::StrCat("is ", num_choices, " in all; the queue holds at most ",
                                        limits_.max_queued_requests, " choices"));
  }
  if (num_queued_ + num_choices > limits_.max_queued_requests) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the queue is full: ", num_queued_, " choices wait, and this request has ",
                     num_choices, "; the limit is ", limits_.max_queued_requests));
  }
  // An empty queue takes whatever can run at all, else it could never be served.
  if (num_queued_ > 0 && queued_prompt_tokens_ + prompt_tokens > limits_.max_queued_prompt_tokens) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the queue is full: ", queued_prompt_tokens_, " prompt tokens wait, and this request has ",
        prompt_tokens, "; the limit is ", limits_.max_queued_prompt_tokens));
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::string& id = requests[i]->request->request_id;
    if (id.empty() || by_id_.try_emplace(id, requests[i]).second) continue;
    for (std::size_t j = 0; j < i; ++j) by_id_.erase(requests[j]->request->request_id);
    return FieldError("request_id",
                      absl::StrCat("'", Excerpt(id), "' is in use by an open request"));
  }
  num_queued_ += num_choices;
  queued_prompt_tokens_ += prompt_tokens;
  for (const std::shared_ptr<OpenRequest>& request : requests) {
    open_.emplace(request.get(), request);
    commands_.push_back({.kind = InboxCommand::Kind::kSubmit, .request = request});
  }
  commands_came_.notify_one();
  return absl::OkStatus();
}

void RequestInbox::Cancel(std::shared_ptr<OpenRequest> request, absl::Status reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!open_.contains(request.get())) return;
  commands_.push_back({.kind = InboxCommand::Kind::kCancel,
                       .request = std::move(request),
                       .reason = std::move(reason)});
  commands_came_.notify_one();
}

void RequestInbox::CancelChoice(std::shared_ptr<OpenRequest> request, int choice) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!open_.contains(request.get())) return;
  commands_.push_back(
      {.kind = InboxCommand::Kind::kCancelChoice, .request = std::move(request), .choice = choice});
  commands_came_.notify_one();
}

absl::Status RequestInbox::CancelById(const std::string& request_id, absl::Status reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = by_id_.find(request_id);
  if (found == by_id_.end()) {
    return absl::NotFoundError(
        absl::StrCat("no open request has the id '", Excerpt(request_id), "'"));
  }
  commands_.push_back(
      {.kind = InboxCommand::Kind::kCancel, .request = found->second, .reason = std::move(reason)});
  commands_came_.notify_one();
  return absl::OkStatus();
}

void RequestInbox::Close(absl::Status refusal) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // A failure is not covered up by the drain that follows it.
  if (refusal_.ok()) refusal_ = std::move(refusal);
}

void RequestInbox::CancelAll(const absl::Status& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [key, request] : open_) {
    commands_.push_back(
        {.kind = InboxCommand::Kind::kCancel, .request = request, .reason = reason});
  }
  commands_came_.notify_one();
}

bool RequestInbox::WaitUntilNoneOpen(absl::Duration timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  return none_open_.wait_for(lock, absl::ToChronoNanoseconds(timeout),
                             [this] { return open_.empty(); });
}

void RequestInbox::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopped_ = true;
  commands_came_.notify_one();
}

bool RequestInbox::Take(int num_waiting, std::int64_t queued_prompt_tokens, bool wait,
                        absl::Duration timeout, std::vector<InboxCommand>& commands) {
  commands.clear();
  std::unique_lock<std::mutex> lock(mutex_);
  num_queued_ = num_waiting;
  queued_prompt_tokens_ = queued_prompt_tokens;
  for (const InboxCommand& command : commands_) {
    if (command.kind != InboxCommand::Kind::kSubmit) continue;
    num_queued_ += static_cast<int>(command.request->choices.size());
    queued_prompt_tokens_ += PromptTokens(*command.request);
  }
  if (wait) {
    commands_came_.wait_for(lock, absl::ToChronoNanoseconds(timeout),
                            [this] { return stopped_ || !commands_.empty(); });
  }
  commands.swap(commands_);
  return !stopped_;
}

void RequestInbox::ReleaseId(const OpenRequest& request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  by_id_.erase(request.request->request_id);
}

void RequestInbox::CountEnded(const OpenRequest& request) {
  const std::lock_guard<std::mutex> lock(mutex_);
  open_.erase(&request);
  if (open_.empty()) none_open_.notify_all();
}

int RequestInbox::num_open() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int>(open_.size());
}

}  // namespace thresher
