#include "server/bench/event_parser.h"

#include <cstdlib>

namespace thresher {

bool EventParser::ParseHead() {
  const std::size_t end = raw_.find("\r\n\r\n");
  if (end == std::string::npos) return false;
  const std::string head = raw_.substr(0, end + 2);
  raw_.erase(0, end + 4);
  status_ = head.size() > 12 ? std::atoi(head.c_str() + 9) : -1;
  chunked_ = head.find("transfer-encoding: chunked\r\n") != std::string::npos;
  events_ = head.find("content-type: text/event-stream") != std::string::npos;
  const std::size_t length = head.find("content-length: ");
  if (length != std::string::npos) {
    content_length_ = std::strtoull(head.c_str() + length + 16, nullptr, 10);
  }
  return true;
}

bool EventParser::TakeChunks() {
  while (true) {
    const std::size_t line = raw_.find("\r\n");
    if (line == std::string::npos) return false;
    const std::size_t size = std::strtoull(raw_.c_str(), nullptr, 16);
    if (raw_.size() < line + 2 + size + 2) return false;
    payload_.append(raw_, line + 2, size);
    raw_.erase(0, line + 2 + size + 2);
    if (size == 0) return true;
  }
}

void EventParser::TakeEvents(const std::function<void(std::string_view)>& event) {
  std::size_t begin = 0;
  for (std::size_t end; (end = payload_.find("\n\n", begin)) != std::string::npos;
       begin = end + 2) {
    const std::string_view text(payload_.data() + begin, end - begin);
    // A line without the prefix is a comment, ": ping".
    if (text.substr(0, 6) == "data: ") event(text.substr(6));
  }
  payload_.erase(0, begin);
}

bool EventParser::Append(std::string_view bytes,
                         const std::function<void(std::string_view)>& event) {
  raw_.append(bytes);
  if (status_ == 0 && !ParseHead()) return false;
  bool complete = false;
  if (chunked_) {
    complete = TakeChunks();
  } else {
    payload_ += raw_;
    raw_.clear();
    complete = payload_.size() >= content_length_;
  }
  if (events_) TakeEvents(event);
  return complete;
}

}  // namespace thresher
