// One client's connection: reads requests, lets the routes answer, streams events, notices at once
// when the client has gone.
#pragma once

#include <functional>
#include <memory>

#include "server/http/wake_registry.h"
#include "server/server_context.h"

namespace thresher {

// Everything a connection borrows; all of it outlives the connections.
struct ConnectionServices {
  boost::asio::io_context& io;
  ServerContext& context;
  WakeRegistry& wakes;
};

// I/O thread only.
class HttpConnection {
 public:
  virtual ~HttpConnection() = default;
  // Closes it now if it waits for a request; otherwise it closes after the present answer.
  virtual void Close() = 0;
  // Closes it now; a running request is cancelled.
  virtual void Abort() = 0;
};

// Takes over the accepted socket and serves it until it ends, then calls `closed` once.
std::shared_ptr<HttpConnection> StartHttpConnection(const ConnectionServices& services,
                                                    int native_socket, bool ipv6,
                                                    std::function<void()> closed);

}  // namespace thresher
