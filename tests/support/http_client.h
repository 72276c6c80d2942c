// A plain HTTP client over one loopback connection: tests say exactly which bytes they send.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace thresher::testing {

struct HttpResponse {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;                                          // chunks joined
  // The header's value, empty if it is not there.
  std::string Header(std::string_view name) const;
  // The texts after "data: ", in order.
  std::vector<std::string> Events() const;
};

class HttpClient final {
 public:
  explicit HttpClient(int port);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void Send(std::string_view bytes);
  // A whole request with the headers given as "name: value\r\n" lines.
  void SendRequest(std::string_view method, std::string_view target, std::string_view body,
                   std::string_view headers = "");
  // Reads one response; fails the test after ten seconds. status 0: the server closed.
  HttpResponse Read(bool head_only = false);
  // Reads until the bytes so far contain the text, and returns them; Read still sees them.
  std::string ReadUntil(std::string_view text);
  // True if the server closes without sending more.
  bool ReadsEnd();
  // Closes with a reset instead of an end.
  void Reset();
  void Close();

  HttpResponse Get(std::string_view target, std::string_view headers = "");
  HttpResponse Post(std::string_view target, std::string_view body, std::string_view headers = "");

 private:
  bool Fill();
  std::optional<std::string> TakeLine();

  int fd_ = -1;
  std::string received_;
};

}  // namespace thresher::testing
