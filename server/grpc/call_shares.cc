#include "server/grpc/call_shares.h"

#include "google/protobuf/message.h"

namespace thresher {

absl::StatusOr<CallShares> TakeCallShares(ServerContext& context, Quota& calls,
                                          const google::protobuf::Message& message) {
  CallShares shares{Quota::Share(calls), Quota::Share(context.body_bytes)};
  absl::Status status = shares.call.GrowTo(1);
  if (status.ok()) {
    status = shares.message_bytes.GrowTo(static_cast<std::int64_t>(message.ByteSizeLong()));
  }
  if (!status.ok()) return status;
  return shares;
}

}  // namespace thresher
