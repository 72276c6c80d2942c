#include "server/grpc/port_check.h"

#include <gtest/gtest.h>

#include "tests/unit/server/server_fixture.h"

namespace thresher {
namespace {

TEST(PortCheckTest, ATakenPortIsNamed) {
  ServerFixture server;
  const int port = server.StartHttp();
  const absl::Status taken = CheckPortIsFree("127.0.0.1", port);
  EXPECT_EQ(taken.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(taken.message(), "cannot listen on 127.0.0.1:" + std::to_string(port) +
                                 " for gRPC: Address already in use");
  server.http->Shutdown(absl::ZeroDuration());
  EXPECT_TRUE(CheckPortIsFree("127.0.0.1", port).ok());
}

TEST(PortCheckTest, HostsAreAddresses) {
  EXPECT_TRUE(CheckPortIsFree("127.0.0.1", 0).ok());
  EXPECT_EQ(CheckPortIsFree("no.such.host", 0).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace thresher
