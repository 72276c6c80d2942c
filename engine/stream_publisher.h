// Hands a step's events to the streams, and tells each listener once.
#pragma once

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "engine/open_request.h"

namespace thresher {

// The engine thread's own. Reuses its memory from step to step.
class StreamPublisher final {
 public:
  StreamPublisher(std::shared_ptr<ListenerGate> gate, absl::Duration stalled_reader_timeout)
      : gate_(std::move(gate)), timeout_(stalled_reader_timeout) {}

  // Appends the event to the request's staged ones.
  void Stage(const std::shared_ptr<OpenRequest>& request, TokenEvent event);

  // Publishes what was staged, and finishes the streams of requests without open choices. Requests
  // whose reader is too slow are appended to `stalled` and stay open.
  void Publish(absl::Time now, std::vector<std::shared_ptr<OpenRequest>>& stalled);
  // Calls the listeners of all streams published since the last call.
  void Notify();

 private:
  struct ListenerTags {
    StreamListener* listener = nullptr;
    std::vector<std::uint64_t> tags;
  };

  const std::shared_ptr<ListenerGate> gate_;
  const absl::Duration timeout_;
  std::vector<std::shared_ptr<OpenRequest>> staged_;
  std::vector<std::shared_ptr<RequestStream>> published_;
  std::vector<ListenerTags> listeners_;
};

}  // namespace thresher
