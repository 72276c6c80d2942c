#include "server/http/http_head.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace thresher {
namespace {

const char* Reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Payload Too Large";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Internal Server Error";
  }
}

void AppendCommon(const HeadOptions& options, std::string& head) {
  absl::StrAppend(&head, "date: ",
                  absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", absl::Now(), absl::UTCTimeZone()),
                  "\r\nserver: thresher\r\nx-request-id: ", options.request_id, "\r\n");
  if (!options.cors_allow_origin.empty()) {
    absl::StrAppend(&head, "access-control-allow-origin: ", options.cors_allow_origin,
                    "\r\naccess-control-expose-headers: x-request-id, retry-after\r\n");
  }
  if (!options.keep_alive) {
    head += "connection: close\r\n";
  } else if (options.http_1_0) {
    head += "connection: keep-alive\r\n";
  }
}

}  // namespace

std::string ReplyHead(const HttpReply& reply, const HeadOptions& options) {
  std::string head = absl::StrCat("HTTP/1.1 ", reply.status, " ", Reason(reply.status), "\r\n");
  AppendCommon(options, head);
  for (const auto& [name, value] : reply.headers) {
    absl::StrAppend(&head, name, ": ", value, "\r\n");
  }
  if (reply.status != 204) {
    absl::StrAppend(&head, "content-type: ", reply.content_type,
                    "\r\ncontent-length: ", reply.body.size(), "\r\n");
  }
  head += "\r\n";
  return head;
}

std::string EventStreamHead(const HeadOptions& options) {
  std::string head = "HTTP/1.1 200 OK\r\n";
  AppendCommon(options, head);
  head +=
      "content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
      "x-accel-buffering: no\r\n";
  if (!options.http_1_0) head += "transfer-encoding: chunked\r\n";
  head += "\r\n";
  return head;
}

void AppendEvents(const std::string& events, const HeadOptions& options, std::string& bytes) {
  if (options.http_1_0) {
    bytes += events;
    return;
  }
  char size[20];
  const int length = std::snprintf(size, sizeof(size), "%zx\r\n", events.size());
  bytes.append(size, static_cast<std::size_t>(length));
  bytes += events;
  bytes += "\r\n";
}

HttpReply OptionsReply(const char* allowed_methods, const std::string& cors_allow_origin) {
  HttpReply reply;
  reply.status = 204;
  reply.headers.emplace_back("allow", allowed_methods);
  if (!cors_allow_origin.empty()) {
    reply.headers.emplace_back("access-control-allow-methods", allowed_methods);
    reply.headers.emplace_back(
        "access-control-allow-headers",
        "authorization, content-type, x-attention-level, x-request-id, x-stainless-retry-count, "
        "x-stainless-read-timeout");
    reply.headers.emplace_back("access-control-max-age", "86400");
  }
  return reply;
}

}  // namespace thresher
