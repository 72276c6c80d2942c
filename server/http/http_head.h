// The head of a response as bytes, and the frame of an event stream.
#pragma once

#include <string>

#include "server/http/http_message.h"

namespace thresher {

struct HeadOptions {
  bool keep_alive = true;
  bool http_1_0 = false;
  std::string request_id;
  std::string cors_allow_origin;  // empty: none
};

// Status line and headers of a whole reply, with its content-length.
std::string ReplyHead(const HttpReply& reply, const HeadOptions& options);
// Those of an event stream; chunked unless HTTP/1.0.
std::string EventStreamHead(const HeadOptions& options);
// Appends a piece of the stream after that head: a chunk, or the bytes alone for HTTP/1.0.
void AppendEvents(const std::string& events, const HeadOptions& options, std::string& bytes);
// The answer to OPTIONS: what the route allows, and the CORS headers if they are on.
HttpReply OptionsReply(const char* allowed_methods, const std::string& cors_allow_origin);

}  // namespace thresher
