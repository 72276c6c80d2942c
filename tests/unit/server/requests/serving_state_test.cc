#include "server/requests/serving_state.h"

#include <gtest/gtest.h>

#include "tests/unit/server/server_fixture.h"

namespace thresher {
namespace {

TEST(ServingStateTest, AStalledEngineIsNotAliveUntilItMovesAgain) {
  ServerFixture server;
  EXPECT_TRUE(server.state->Liveness(absl::Now() + absl::Seconds(10)).ok());
  // An idle engine is not a stalled one, however long it idles: its clock goes with the real one.
  EXPECT_TRUE(server.state->Liveness(absl::Now()).ok());
  server.runner->Hold();
  GenerationRequest request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 4;
  auto handle = server.engine->Submit(request, nullptr, 0);
  ASSERT_TRUE(handle.ok());
  server.runner->AwaitHeldWait();
  const absl::Time later = absl::Now() + server.config.stall + absl::Seconds(1);
  EXPECT_EQ(server.state->Liveness(later).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(server.state->Liveness(absl::Now()).ok());
  server.runner->Release();
  std::vector<TokenEvent> events;
  while ((*handle)->Poll(events)) (*handle)->Wait(absl::Seconds(10));
  EXPECT_TRUE(server.state->Liveness(absl::Now()).ok());
}

TEST(ServingStateTest, AdmitsOnlyWhenReady) {
  ServerFixture server({.loaded = false});
  EXPECT_EQ(server.state->Readiness(), "loading");
  EXPECT_EQ(server.state->Admit().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(server.state->Liveness(absl::Now()).ok());
  server.FinishLoading();
  EXPECT_EQ(server.state->Readiness(), "ok");
  EXPECT_TRUE(server.state->Admit().ok());
  server.state->SetDraining();
  EXPECT_EQ(server.state->Readiness(), "draining");
  EXPECT_FALSE(server.state->Admit().ok());
  // What needs no engine step goes on.
  EXPECT_TRUE(server.state->Model().ok());
}

}  // namespace
}  // namespace thresher
