#include "engine/stream_publisher.h"

#include <utility>

namespace thresher {

void StreamPublisher::Stage(const std::shared_ptr<OpenRequest>& request, TokenEvent event) {
  request->staged.push_back(std::move(event));
  if (request->is_staged) return;
  request->is_staged = true;
  staged_.push_back(request);
}

void StreamPublisher::Publish(absl::Time now, std::vector<std::shared_ptr<OpenRequest>>& stalled) {
  for (const std::shared_ptr<OpenRequest>& request : staged_) {
    request->is_staged = false;
    // With every event: a reader ends a choice itself where it finds a stop string, and asks then.
    request->stream->SetUsage(request->usage);
    if (request->num_open_choices == 0) {
      request->stream->Finish(request->staged);
    } else if (request->stream->Publish(request->staged, now, timeout_) !=
               RequestStream::Reader::kReading) {
      stalled.push_back(request);
    }
    published_.push_back(request->stream);
  }
  staged_.clear();
}

void StreamPublisher::Notify() {
  if (published_.empty()) return;
  const std::lock_guard<std::mutex> lock(gate_->mutex);
  for (const std::shared_ptr<RequestStream>& stream : published_) {
    StreamListener* const listener = stream->listener();
    if (listener == nullptr) continue;
    // A process has a listener or two, so a search beats a table.
    ListenerTags* entry = nullptr;
    for (ListenerTags& known : listeners_) {
      if (known.listener == listener) entry = &known;
    }
    if (entry == nullptr) entry = &listeners_.emplace_back(ListenerTags{listener, {}});
    entry->tags.push_back(stream->tag());
  }
  published_.clear();
  // An entry without news may belong to a listener that is gone.
  std::erase_if(listeners_, [](const ListenerTags& entry) { return entry.tags.empty(); });
  for (ListenerTags& entry : listeners_) {
    entry.listener->OnEventsReady(entry.tags);
    entry.tags.clear();
  }
}

}  // namespace thresher
