// A request and a reply as the routes see them, free of the HTTP library.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace thresher {

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // percent-decoded, without the query
  std::string authorization;
  std::string attention_level;  // x-attention-level
  std::string request_id;       // x-request-id, given or made
  std::string body;
};

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

// The wire's error object with the headers that belong to its status.
HttpReply ErrorReply(const absl::Status& status);
HttpReply ErrorReply(int http_status, std::string_view code, std::string_view message);

// Decodes %XX; drops the query and, from an absolute-form target, the origin. False if an escape is
// malformed or makes a NUL.
bool DecodePath(std::string_view target, std::string& path);

// The client's id if it is one to three hundred printable ASCII characters, else a new one.
std::string RequestIdFrom(std::string_view header);

}  // namespace thresher
