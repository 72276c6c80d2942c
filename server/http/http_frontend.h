// The HTTP port: accepts connections and serves them on one I/O thread.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/server_context.h"

namespace thresher {

// Owned and called by one thread; the context outlives it.
class HttpFrontend final {
 public:
  // Binds and starts. Unavailable naming the address: it cannot be bound.
  static absl::StatusOr<std::unique_ptr<HttpFrontend>> Start(ServerContext& context);
  ~HttpFrontend();

  int port() const;
  // Refuses new connections, gives open answers until the grace time to be written, then cuts what
  // is left and ends the I/O thread. After it, the workers may be stopped.
  void Shutdown(absl::Duration grace);

 private:
  struct State;
  explicit HttpFrontend(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace thresher
