// What every call of the inference service holds while it is open.
#pragma once

#include "absl/status/statusor.h"
#include "server/quota.h"
#include "server/server_context.h"

namespace google::protobuf {
class Message;
}

namespace thresher {

// Given back when the call is done: gRPC keeps the message until then.
struct CallShares {
  Quota::Share call;
  Quota::Share message_bytes;
};

// ResourceExhausted naming the limit: too many calls are open, or their messages are too large
// together.
absl::StatusOr<CallShares> TakeCallShares(ServerContext& context, Quota& calls,
                                          const google::protobuf::Message& message);

}  // namespace thresher
