// The bytes of an HTTP response with an event stream to its events, as they come.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace thresher {

// One response at a time. Takes a chunked body or one of a known length.
class EventParser final {
 public:
  // Calls `event` with the text after each "data: ". True once the body is complete.
  bool Append(std::string_view bytes, const std::function<void(std::string_view)>& event);
  int status() const { return status_; }  // 0 until the head is complete
  // The body, if it is no event stream.
  const std::string& body() const { return payload_; }

 private:
  bool ParseHead();
  bool TakeChunks();
  void TakeEvents(const std::function<void(std::string_view)>& event);

  std::string raw_;      // not yet understood: of the head, then of the chunks
  std::string payload_;  // of the body, without the events taken
  int status_ = 0;
  bool chunked_ = false;
  bool events_ = false;
  std::size_t content_length_ = 0;
};

}  // namespace thresher
