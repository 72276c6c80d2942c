// One Generate call: a reactor whose state belongs to the stream thread.
#pragma once

#include "absl/status/statusor.h"
#include "server/grpc/call_wakes.h"
#include "server/quota.h"
#include "server/server_context.h"
#include "thresher/v1/inference.pb.h"

namespace grpc {
class CallbackServerContext;
class Status;
template <class Response>
class ServerWriteReactor;
}  // namespace grpc

namespace thresher {

// What the calls share; outlives them.
struct GenerateServices {
  ServerContext& context;
  TaskQueue& stream_thread;
  CallWakes& wakes;
  Quota& calls;  // open ones
};

// Returns a reactor that owns itself until gRPC is done with it, and so with `message`. A call for
// which there is no room ends at once with RESOURCE_EXHAUSTED.
grpc::ServerWriteReactor<v1::GenerateResponse>* StartGenerateCall(
    const GenerateServices& services, grpc::CallbackServerContext& call,
    const v1::GenerateRequest& message);

// The key and level that the call's metadata carry.
absl::StatusOr<KeyGrant> CheckCallKey(ServerContext& context,
                                      const grpc::CallbackServerContext& call);
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace thresher
