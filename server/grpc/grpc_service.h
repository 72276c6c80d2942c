// The gRPC port: the inference service, the standard health service and reflection.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/server_context.h"

namespace thresher {

// Owned and called by one thread; the context outlives it.
class GrpcFrontend final {
 public:
  // Binds and starts. Unavailable naming the address: it cannot be bound.
  static absl::StatusOr<std::unique_ptr<GrpcFrontend>> Start(ServerContext& context);
  ~GrpcFrontend();

  int port() const;
  // What the health service says, of the whole server and of the inference service.
  void SetServing(bool serving);
  // Refuses new calls, gives open ones the grace time, then cancels them and waits for their end.
  void Shutdown(absl::Duration grace);

 private:
  struct State;
  explicit GrpcFrontend(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace thresher
