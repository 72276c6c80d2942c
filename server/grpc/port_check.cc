#include "server/grpc/port_check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

// Closes the socket at the end.
class Socket final {
 public:
  explicit Socket(int family) : descriptor_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  // The error number; 0 if it can listen there.
  int Listen(const sockaddr* address, socklen_t length) const {
    if (descriptor_ < 0) return errno;
    // As gRPC does, so that connections of a server that has just ended are no obstacle.
    const int on = 1;
    setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(descriptor_, address, length) != 0) return errno;
    return listen(descriptor_, 1) == 0 ? 0 : errno;
  }

 private:
  const int descriptor_;
};

}  // namespace

absl::Status CheckPortIsFree(const std::string& host, int port) {
  sockaddr_in ipv4{};
  sockaddr_in6 ipv6{};
  ipv4.sin_family = AF_INET;
  ipv6.sin6_family = AF_INET6;
  ipv4.sin_port = ipv6.sin6_port = htons(static_cast<std::uint16_t>(port));
  int error = 0;
  if (inet_pton(AF_INET, host.c_str(), &ipv4.sin_addr) == 1) {
    error = Socket(AF_INET).Listen(reinterpret_cast<const sockaddr*>(&ipv4), sizeof(ipv4));
  } else if (inet_pton(AF_INET6, host.c_str(), &ipv6.sin6_addr) == 1) {
    error = Socket(AF_INET6).Listen(reinterpret_cast<const sockaddr*>(&ipv6), sizeof(ipv6));
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("--host is '", host, "'; it must be an IP address"));
  }
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", host, ":", port, " for gRPC: ", std::strerror(error)));
}

}  // namespace thresher
