#include "tests/support/http_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "absl/strings/str_cat.h"

namespace thresher::testing {

std::string HttpResponse::Header(std::string_view name) const {
  for (const auto& [header, value] : headers) {
    if (header == name) return value;
  }
  return "";
}

std::vector<std::string> HttpResponse::Events() const {
  std::vector<std::string> events;
  std::size_t begin = 0;
  for (std::size_t end; (end = body.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
    const std::string text = body.substr(begin, end - begin);
    if (text.compare(0, 6, "data: ") == 0) events.push_back(text.substr(6));
  }
  return events;
}

HttpClient::HttpClient(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const timeval limit{10, 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

HttpClient::~HttpClient() { Close(); }

void HttpClient::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

void HttpClient::Reset() {
  const linger now{1, 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  Close();
}

void HttpClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the server has closed; what it said shows when read
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void HttpClient::SendRequest(std::string_view method, std::string_view target,
                             std::string_view body, std::string_view headers) {
  std::string bytes = absl::StrCat(std::string(method), " ", std::string(target),
                                   " HTTP/1.1\r\nhost: test\r\n", std::string(headers));
  if (!body.empty()) absl::StrAppend(&bytes, "content-length: ", body.size(), "\r\n");
  absl::StrAppend(&bytes, "\r\n", std::string(body));
  Send(bytes);
}

bool HttpClient::Fill() {
  char bytes[16 << 10];
  const ssize_t count = recv(fd_, bytes, sizeof(bytes), 0);
  EXPECT_FALSE(count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) << "nothing came";
  if (count <= 0) return false;
  received_.append(bytes, static_cast<std::size_t>(count));
  return true;
}

std::optional<std::string> HttpClient::TakeLine() {
  std::size_t end;
  while ((end = received_.find("\r\n")) == std::string::npos) {
    if (!Fill()) return std::nullopt;
  }
  std::string line = received_.substr(0, end);
  received_.erase(0, end + 2);
  return line;
}

HttpResponse HttpClient::Read(bool head_only) {
  HttpResponse response;
  const std::optional<std::string> first = TakeLine();
  if (!first.has_value()) return response;
  response.status = std::atoi(first->c_str() + std::min<std::size_t>(9, first->size()));
  for (std::optional<std::string> line = TakeLine(); line.has_value() && !line->empty();
       line = TakeLine()) {
    const std::size_t colon = line->find(": ");
    std::string name = line->substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    response.headers.emplace_back(name, colon == std::string::npos ? "" : line->substr(colon + 2));
  }
  if (head_only || response.status == 204 || response.status == 100) return response;
  if (response.Header("transfer-encoding") == "chunked") {
    while (true) {
      const std::optional<std::string> line = TakeLine();
      if (!line.has_value()) return response;
      const std::size_t size = std::strtoull(line->c_str(), nullptr, 16);
      while (received_.size() < size + 2) {
        if (!Fill()) return response;
      }
      response.body += received_.substr(0, size);
      received_.erase(0, size + 2);
      if (size == 0) return response;
    }
  }
  const std::string length = response.Header("content-length");
  if (length.empty()) {  // until the end
    while (Fill()) continue;
    response.body = std::exchange(received_, "");
    return response;
  }
  const std::size_t size = std::strtoull(length.c_str(), nullptr, 10);
  while (received_.size() < size) {
    if (!Fill()) return response;
  }
  response.body = received_.substr(0, size);
  received_.erase(0, size);
  return response;
}

std::string HttpClient::ReadUntil(std::string_view text) {
  while (received_.find(text) == std::string::npos) {
    if (!Fill()) break;
  }
  return received_;
}

bool HttpClient::ReadsEnd() { return received_.empty() && !Fill(); }

HttpResponse HttpClient::Get(std::string_view target, std::string_view headers) {
  SendRequest("GET", target, "", headers);
  return Read();
}

HttpResponse HttpClient::Post(std::string_view target, std::string_view body,
                              std::string_view headers) {
  SendRequest("POST", target, body, headers);
  return Read();
}

}  // namespace thresher::testing
