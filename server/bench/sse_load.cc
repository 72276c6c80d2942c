#include "server/bench/sse_load.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/bench/event_parser.h"

namespace thresher {
namespace {

class Descriptor final {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

absl::StatusOr<int> Connect(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("'", host, "' is not an IPv4 address"));
  }
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    const std::string reason = std::strerror(errno);
    if (fd >= 0) close(fd);
    return absl::UnavailableError(
        absl::StrCat("cannot connect to ", host, ":", port, ": ", reason));
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

bool SendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::string Head(const std::string& method, const std::string& path, const std::string& api_key) {
  return absl::StrCat(
      method, " ", path, " HTTP/1.1\r\nhost: localhost\r\n",
      api_key.empty() ? "" : absl::StrCat("authorization: Bearer ", api_key, "\r\n"));
}

// The integer after `"name":` in an event, 0 if it is not there.
std::int64_t IntegerIn(std::string_view event, std::string_view name) {
  const std::size_t at = event.find(name);
  if (at == std::string_view::npos) return 0;
  return std::strtoll(std::string(event.substr(at + name.size(), 20)).c_str(), nullptr, 10);
}

// One stream at a time of one connection slot.
struct Stream {
  int fd = -1;
  EventParser parser;
  absl::Time start, last;
  bool got_text = false;
  bool failed = false;
};

class Load final {
 public:
  explicit Load(const SseLoadOptions& options)
      : options_(options), epoll_(epoll_create1(EPOLL_CLOEXEC)), streams_(options.concurrency) {}

  absl::StatusOr<SseLoadReport> Run() {
    const absl::Time start = absl::Now();
    for (std::size_t i = 0; i < streams_.size() && next_ < options_.requests; ++i) {
      if (absl::Status status = Begin(i); !status.ok()) return status;
    }
    while (open_ > 0) {
      epoll_event ready[256];
      const int count = epoll_wait(epoll_.get(), ready, 256, -1);
      for (int i = 0; i < count; ++i) {
        if (absl::Status status = Read(ready[i].data.u64); !status.ok()) return status;
      }
    }
    report_.wall_seconds = absl::ToDoubleSeconds(absl::Now() - start);
    return std::move(report_);
  }

 private:
  absl::Status Begin(std::size_t slot) {
    Stream& stream = streams_[slot];
    stream = Stream();
    const absl::StatusOr<int> fd = Connect(options_.host, options_.port);
    if (!fd.ok()) return fd.status();
    stream.fd = *fd;
    const std::string body = options_.body(next_++);
    const std::string request = absl::StrCat(
        Head("POST", options_.path, options_.api_key),
        "content-type: application/json\r\ncontent-length: ", body.size(), "\r\n\r\n", body);
    stream.start = stream.last = absl::Now();
    if (!SendAll(stream.fd, request)) return absl::UnavailableError("cannot send a request");
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = slot;
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stream.fd, &event);
    ++open_;
    return absl::OkStatus();
  }

  absl::Status Read(std::size_t slot) {
    Stream& stream = streams_[slot];
    char bytes[16 << 10];
    const ssize_t count = recv(stream.fd, bytes, sizeof(bytes), 0);
    const absl::Time now = absl::Now();
    bool complete = false;
    if (count > 0) {
      complete =
          stream.parser.Append(std::string_view(bytes, static_cast<std::size_t>(count)),
                               [&](std::string_view event) { TakeEvent(stream, event, now); });
    } else {
      Fault(stream, "the connection was cut");
      complete = true;
    }
    if (!complete) return absl::OkStatus();
    if (stream.parser.status() != 200) {
      Fault(stream, absl::StrCat("HTTP ", stream.parser.status(), ": ", stream.parser.body()));
    }
    if (stream.failed) ++report_.failed;
    close(stream.fd);
    --open_;
    return next_ < options_.requests ? Begin(slot) : absl::OkStatus();
  }

  void Fault(Stream& stream, const std::string& error) {
    stream.failed = true;
    if (report_.first_error.empty()) report_.first_error = error;
  }

  void TakeEvent(Stream& stream, std::string_view event, absl::Time now) {
    if (event == "[DONE]") return;
    if (event.substr(0, 9) == "{\"error\":") return Fault(stream, std::string(event));
    if (event.find("\"choices\":[]") != std::string_view::npos) {
      report_.prompt_tokens += IntegerIn(event, "\"prompt_tokens\":");
      report_.completion_tokens += IntegerIn(event, "\"completion_tokens\":");
      report_.cached_tokens += IntegerIn(event, "\"cached_tokens\":");
      return;
    }
    const double seconds = absl::ToDoubleSeconds(now - stream.last);
    stream.last = now;
    // Events of one write come together; the time between writes is what a reader sees.
    if (stream.got_text) {
      if (seconds > 0) report_.gap_seconds.push_back(seconds);
    } else {
      report_.first_token_seconds.push_back(seconds);
    }
    stream.got_text = true;
  }

  const SseLoadOptions& options_;
  Descriptor epoll_;
  std::vector<Stream> streams_;
  int next_ = 0;
  int open_ = 0;
  SseLoadReport report_;
};

}  // namespace

absl::StatusOr<SseLoadReport> RunSseLoad(const SseLoadOptions& options) {
  return Load(options).Run();
}

absl::StatusOr<std::string> HttpGet(const std::string& host, int port, const std::string& path,
                                    const std::string& api_key) {
  const absl::StatusOr<int> connected = Connect(host, port);
  if (!connected.ok()) return connected.status();
  const Descriptor fd(*connected);
  if (!SendAll(fd.get(), Head("GET", path, api_key) + "\r\n")) {
    return absl::UnavailableError("cannot send a request");
  }
  EventParser parser;
  char bytes[16 << 10];
  while (true) {
    const ssize_t count = recv(fd.get(), bytes, sizeof(bytes), 0);
    if (count <= 0) return absl::UnavailableError("the connection was cut");
    if (parser.Append(std::string_view(bytes, static_cast<std::size_t>(count)),
                      [](std::string_view) {})) {
      break;
    }
  }
  if (parser.status() != 200) {
    return absl::UnavailableError(absl::StrCat("HTTP ", parser.status(), ": ", parser.body()));
  }
  return parser.body();
}

double Percentile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(share * last + 0.5)];
}

}  // namespace thresher
