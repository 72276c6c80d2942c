// How requests end other than by themselves: cancelled in every state, expired, stalled, drained,
// failed, or outlived by their handles. Held steps make each state certain without sleeping.
#include "engine/engine_loop.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/fakes/fake_engine.h"

namespace thresher {
namespace {

void ExpectCancelled(RequestHandle& handle, const CountingObserver& observer) {
  const TokenEvent last = LastOf(ReadAll(handle), 0);
  EXPECT_EQ(last.finish, FinishReason::kAborted);
  EXPECT_EQ(last.status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(observer.Ended(RequestOutcome::kAborted), 1);
}

TEST(EngineLoop, CancelsWhatIsStillInTheInbox) {
  CountingObserver observer;
  FakeEngine fake({}, &observer);
  fake.runner->Hold();
  const auto blocker = MustSubmit(*fake.engine, Request(10, 5));
  fake.runner->AwaitHeldWait();  // the engine thread takes no commands now
  const auto handle = MustSubmit(*fake.engine, Request(10, 5));
  handle->Cancel();
  fake.runner->Release();
  ExpectCancelled(*handle, observer);
  EXPECT_EQ(TokensOf(ReadAll(*blocker), 0).size(), 5u);
  ExpectClean(*fake.engine);
}

TEST(EngineLoop, CancelsAWaitingRequest) {
  CountingObserver observer;
  FakeEngineOptions options;
  options.scheduler.max_running = 1;
  FakeEngine fake(options, &observer);
  fake.runner->Hold();
  const auto runs = MustSubmit(*fake.engine, Request(10, 30));
  fake.runner->AwaitHeldWait();
  const auto waits = MustSubmit(*fake.engine, Request(10, 5));
  fake.runner->AllowSteps(3);
  fake.runner->AwaitHeldWait();
  EXPECT_EQ(fake.engine->load().waiting, 1);
  waits->Cancel();
  fake.runner->Release();
  ExpectCancelled(*waits, observer);
  EXPECT_EQ(TokensOf(ReadAll(*runs), 0).size(), 30u);
  ExpectClean(*fake.engine);
}

TEST(EngineLoop, CancelsInTheMiddleOfAPrefill) {
  CountingObserver observer;
  FakeEngineOptions options;
  options.scheduler.max_running = 8;
  options.scheduler.token_budget = 136;
  FakeEngine fake(options, &observer);
  fake.runner->Hold();
  const auto handle = MustSubmit(*fake.engine, Request(500, 5));
  fake.runner->AwaitHeldWait();
  handle->Cancel();
  fake.runner->Release();
  ExpectCancelled(*handle, observer);
  ExpectClean(*fake.engine);
}

TEST(EngineLoop, CancelsWhileDecodingWithTwoStepsInFlight) {
  CountingObserver observer;
  FakeEngine fake({}, &observer);
  fake.runner->Hold();
  const auto handle = MustSubmit(*fake.engine, Request(10, 400));
  fake.runner->AllowSteps(5);
  fake.runner->AwaitHeldWait();
  handle->Cancel();
  fake.runner->Release();
  const std::vector<TokenEvent> events = ReadAll(*handle);
  EXPECT_EQ(LastOf(events, 0).finish, FinishReason::kAborted);
  EXPECT_LE(TokensOf(events, 0).size(), 7u);
  ExpectClean(*fake.engine);
}

TEST(EngineLoop, CancelAfterTheEndHasNoEffect) {
  CountingObserver observer;
  FakeEngine fake({}, &observer);
  const auto handle = MustSubmit(*fake.engine, Request(10, 3));
  EXPECT_EQ(ReadAll(*handle).size(), 3u);
  handle->Cancel();
  handle->CancelChoice(0);
  ExpectClean(*fake.engine);
  std::vector<TokenEvent> events;
  EXPECT_FALSE(handle->Poll(events));
  EXPECT_TRUE(events.empty());
  EXPECT_EQ(observer.Ended(RequestOutcome::kLength), 2);
  EXPECT_EQ(observer.Ended(RequestOutcome::kAborted), 0);
}

TEST(EngineLoop, AbortsByIdAndOnlyOpenOnes) {
  CountingObserver observer;
  FakeEngine fake({}, &observer);
  fake.runner->Hold();
  GenerationRequest request = Request(10, 400);
  request.request_id = "r1";
  const auto handle = MustSubmit(*fake.engine, request);
  EXPECT_EQ(fake.engine->Abort("other").code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(fake.engine->Abort("r1").ok());
  fake.runner->Release();
  ExpectCancelled(*handle, observer);
  EXPECT_EQ(fake.engine->Abort("r1").code(), absl::StatusCode::kNotFound);
}

TEST(EngineLoop, RequestsSubmittedTogetherStartInOneStep) {
  FakeEngine fake({});
  fake.runner->Hold();
  std::vector<GenerationRequest> requests = {Request(10, 1), Request(12, 1), Request(14, 1)};
  const auto handles = fake.engine->SubmitTogether(requests, nullptr, 0);
  ASSERT_TRUE(handles.ok()) << handles.status();
  ASSERT_EQ(handles->size(), 3u);
  // One step is enough for all of them.
  fake.runner->AllowSteps(1);
  for (const auto& handle : *handles) EXPECT_EQ(TokensOf(ReadAll(*handle), 0).size(), 1u);
  EXPECT_EQ(fake.runner->num_launched(), 1);
  fake.runner->Release();
  ExpectClean(*fake.engine);
}

TEST(EngineLoop, SubmitsAllRequestsOrNone) {
  CountingObserver observer;
  FakeEngineOptions options;
  options.scheduler.max_queued_requests = 3;
  FakeEngine fake(options, &observer);
  EXPECT_EQ(fake.engine->SubmitTogether(std::vector(4, Request(10, 1)), nullptr, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  GenerationRequest named = Request(10, 1);
  named.request_id = "twice";
  EXPECT_EQ(fake.engine->SubmitTogether({named, named}, nullptr, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  std::vector<GenerationRequest> second_is_bad = {Request(10, 1), Request(10, -5)};
  EXPECT_EQ(fake.engine->SubmitTogether(second_is_bad, nullptr, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(observer.Ended(RequestOutcome::kRejected), 8);
  // The id of those that were refused is free.
  EXPECT_EQ(TokensOf(ReadAll(*MustSubmit(*fake.engine, named)), 0).size(), 1u);
  ExpectClean(*fake.engine);
}

TEST(EngineLoop, CancelsAPreemptedRequest) {
  CountingObserver observer;
  FakeEngineOptions options;
  options.scheduler.num_blocks = 8;
  options.scheduler.block_size = 16;
  options.scheduler.reserve_tokens = 1;
  options.max_model_len = 120;
  FakeEngine fake(options, &observer);
  fake.runner->Hold();
  std::vector<std::unique_ptr<RequestHandle>> handles;
  for (int i = 0; i < 4; ++i) {
    GenerationRequest request = Request(20, 0, 10 * i);
    request.max_tokens = std::nullopt;
    handles.push_back(MustSubmit(*fake.engine, std::move(request)));
  }
  // The pool has room for one and a half of them, so the newest gives way.
  while (fake.engine->load().waiting == 0 || fake.engine->load().running == 4) {
    fake.runner->AllowSteps(1);
    fake.runner->AwaitHeldWait();
  }
  handles[3]->Cancel();
  fake.runner->Release();
  ExpectCancelled(*handles[3], observer);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(TokensOf(ReadAll(*handles[i]), 0).size(), 100u) << i;
  ExpectClean(*fake.engine);
}

TEST(EngineLoop, OneChoiceStopsWhileTheOthersGoOn) {
  CountingObserver observer;
  FakeEngine fake({}, &observer);
  fake.runner->Hold();
  GenerationRequest request = Request(10, 50);
  request.n = 3;
  const auto handle = MustSubmit(*fake.engine, std::move(request));
  fake.runner->AllowSteps(4);
  fake.runner->AwaitHeldWait();
  handle->CancelChoice(1);
  handle->CancelChoice(9);
  handle->CancelChoice(-1);
  fake.runner->Release();
  const std::vector<TokenEvent> events = ReadAll(*handle);
  EXPECT_EQ(LastOf(events, 1).finish, FinishReason::kStop);
  EXPECT_LT(TokensOf(events, 1).size(), 10u);
  for (const int choice : {0, 2}) {
    EXPECT_EQ(TokensOf(events, choice).size(), 50u);
    EXPECT_EQ(LastOf(events, choice).finish, FinishReason::kLength);
  }
  ExpectClean(*fake.engine);
}

TEST(EngineLoop, StoppingTheFirstChoiceEarlyFreesItsFollowers) {
  FakeEngineOptions options;
  options.scheduler.max_running = 8;
  options.scheduler.token_budget = 136;
  FakeEngine fake(options);
  fake.runner->Hold();
  GenerationRequest request = Request(400, 10);
  request.n = 3;
  const auto handle = MustSubmit(*fake.engine, std::move(request));
  fake.runner->AwaitHeldWait();  // choice 0 is in its prefill, the others wait for it
  handle->CancelChoice(0);
  fake.runner->Release();
  const std::vector<TokenEvent> events = ReadAll(*handle);
  EXPECT_TRUE(TokensOf(events, 0).empty());
  EXPECT_EQ(TokensOf(events, 1).size(), 10u);
  EXPECT_EQ(TokensOf(events, 2).size(), 10u);
}

TEST(EngineLoop, ADroppedHandleCancelsItsRequest) {
  CountingObserver observer;
  FakeEngine fake({}, &observer);
  fake.runner->Hold();
  auto handle = MustSubmit(*fake.engine, Request(10, 400));
  fake.runner->AllowSteps(3);
  fake.runner->AwaitHeldWait();
  handle.reset();
  fake.runner->Release();
  ExpectClean(*fake.engine);
  EXPECT_EQ(observer.Ended(RequestOutcome::kAborted), 1);
}

TEST(EngineLoop, TheDeadlineEndsAWaitingAndARunningRequest) {
  CountingObserver observer;
  FakeClock clock;
  FakeEngineOptions options;
  options.scheduler.max_running = 1;
  FakeEngine fake(options, &observer, &clock);
  fake.runner->Hold();
  GenerationRequest request = Request(10, 400);
  request.deadline = clock.Now() + absl::Seconds(5);
  const auto runs = MustSubmit(*fake.engine, request);
  fake.runner->AllowSteps(3);
  fake.runner->AwaitHeldWait();
  const auto waits = MustSubmit(*fake.engine, request);
  const auto without = MustSubmit(*fake.engine, Request(10, 5));
  fake.runner->AllowSteps(3);
  fake.runner->AwaitHeldWait();
  clock.Advance(absl::Seconds(6));
  fake.runner->Release();
  for (RequestHandle* handle : {runs.get(), waits.get()}) {
    const TokenEvent last = LastOf(ReadAll(*handle), 0);
    EXPECT_EQ(last.finish, FinishReason::kError);
    EXPECT_EQ(last.status.code(), absl::StatusCode::kDeadlineExceeded);
  }
  EXPECT_EQ(TokensOf(ReadAll(*without), 0).size(), 5u);
  EXPECT_EQ(observer.Ended(RequestOutcome::kDeadline), 2);
}

TEST(EngineLoop, ADeadlineInThePastEndsBeforeAnyStep) {
  FakeClock clock;
  FakeEngine fake({}, nullptr, &clock);
  GenerationRequest request = Request(10, 400);
  request.deadline = clock.Now() - absl::Seconds(1);
  const auto handle = MustSubmit(*fake.engine, request);
  EXPECT_EQ(LastOf(ReadAll(*handle), 0).status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(fake.runner->num_launched(), 0);
}

TEST(EngineLoop, AFailedStepFailsEveryOpenRequestAndTheEngine) {
  CountingObserver observer;
  FakeEngineOptions options;
  options.runner.failing_step = 6;
  options.scheduler.max_running = 2;
  FakeEngine fake(options, &observer);
  fake.runner->Hold();
  std::vector<std::unique_ptr<RequestHandle>> handles;
  for (int i = 0; i < 4; ++i) handles.push_back(MustSubmit(*fake.engine, Request(10, 400)));
  fake.runner->Release();
  for (const auto& handle : handles) {
    const TokenEvent last = LastOf(ReadAll(*handle), 0);
    EXPECT_EQ(last.finish, FinishReason::kError);
    EXPECT_EQ(last.status.code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(fake.engine->health(), EngineHealth::kFailed);
  EXPECT_EQ(fake.engine->Submit(Request(4, 4), nullptr, 0).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(observer.Ended(RequestOutcome::kError), 4);
  EXPECT_EQ(observer.Ended(RequestOutcome::kRejected), 1);
  fake.engine->Drain(absl::InfiniteFuture());
}

TEST(EngineLoop, DrainRefusesNewRequestsAndFinishesOpenOnes) {
  FakeEngine fake({});
  fake.runner->Hold();
  const auto handle = MustSubmit(*fake.engine, Request(10, 50));
  std::thread drain([&] { fake.engine->Drain(absl::InfiniteFuture()); });
  while (fake.engine->health() != EngineHealth::kDraining) std::this_thread::yield();
  absl::Status refused;
  do {
    refused = fake.engine->Submit(Request(4, 4), nullptr, 0).status();
  } while (refused.ok());
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  fake.runner->Release();
  drain.join();
  EXPECT_EQ(TokensOf(ReadAll(*handle), 0).size(), 50u);
}

// Room for a request that goes on for longer than any test.
FakeEngineOptions EndlessOptions() {
  FakeEngineOptions options;
  options.max_model_len = 1 << 20;
  options.scheduler.num_blocks = (1 << 20) / 64;
  options.stream_capacity = 1 << 21;
  return options;
}
constexpr int kEndless = 1'000'000;

TEST(EngineLoop, DrainCancelsWhatIsLeftAtItsDeadline) {
  CountingObserver observer;
  FakeEngine fake(EndlessOptions(), &observer);
  const auto handle = MustSubmit(*fake.engine, Request(10, kEndless));
  handle->Wait(absl::InfiniteDuration());
  fake.engine->Drain(absl::Now());
  EXPECT_EQ(observer.Ended(RequestOutcome::kError), 1);
  const TokenEvent last = LastOf(ReadAll(*handle), 0);
  EXPECT_EQ(last.finish, FinishReason::kError);
  EXPECT_EQ(last.status.code(), absl::StatusCode::kUnavailable);
}

TEST(EngineLoop, DestroyingTheEngineEndsOpenRequestsAndLeavesHandlesSafe) {
  auto fake = std::make_unique<FakeEngine>(EndlessOptions());
  const auto handle = MustSubmit(*fake->engine, Request(10, kEndless));
  handle->Wait(absl::InfiniteDuration());
  fake.reset();
  const TokenEvent last = LastOf(ReadAll(*handle), 0);
  EXPECT_EQ(last.finish, FinishReason::kError);
  EXPECT_EQ(last.status.code(), absl::StatusCode::kUnavailable);
  handle->Cancel();
  handle->CancelChoice(0);
}

TEST(EngineLoop, AnIdleLoopCountsAsProgress) {
  FakeClock clock;
  FakeEngine fake({}, nullptr, &clock);
  ReadAll(*MustSubmit(*fake.engine, Request(10, 4)));
  ExpectClean(*fake.engine);
  clock.Advance(absl::Hours(1));
  while (fake.engine->last_progress() != clock.Now()) std::this_thread::yield();
  fake.runner->Hold();
  const auto handle = MustSubmit(*fake.engine, Request(10, 4));
  fake.runner->AwaitHeldWait();
  clock.Advance(absl::Hours(1));
  EXPECT_LE(fake.engine->last_progress(), clock.Now() - absl::Hours(1));
  fake.runner->Release();
  ReadAll(*handle);
}

}  // namespace
}  // namespace thresher
