// Between the engine thread and its readers: slow readers, listeners, many threads.
#include "engine/request_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>

#include "tests/support/fakes/fake_engine.h"

namespace thresher {
namespace {

TEST(RequestStream, AStalledReaderIsCancelledAndOthersGoOn) {
  CountingObserver observer;
  FakeClock clock;
  FakeEngine fake({}, &observer, &clock);
  fake.runner->Hold();
  const auto stalled = MustSubmit(*fake.engine, Request(10, 400));
  const auto reads = MustSubmit(*fake.engine, Request(10, 400));
  fake.runner->AllowSteps(4);
  fake.runner->AwaitHeldWait();
  clock.Advance(absl::Seconds(29));
  std::vector<TokenEvent> events;
  EXPECT_TRUE(reads->Poll(events));
  EXPECT_FALSE(events.empty());
  fake.runner->AllowSteps(1);
  fake.runner->AwaitHeldWait();
  EXPECT_EQ(observer.Ended(RequestOutcome::kAborted), 0);
  clock.Advance(absl::Seconds(2));
  fake.runner->AllowSteps(1);
  fake.runner->AwaitHeldWait();
  EXPECT_EQ(observer.Ended(RequestOutcome::kAborted), 1);
  fake.runner->Release();
  const TokenEvent last = LastOf(ReadAll(*stalled), 0);
  EXPECT_EQ(last.finish, FinishReason::kAborted);
  EXPECT_NE(std::string(last.status.message()).find("too slow"), std::string::npos);
  const std::vector<TokenEvent> rest = ReadAll(*reads);
  EXPECT_EQ(TokensOf(events, 0).size() + TokensOf(rest, 0).size(), 400u);
}

TEST(RequestStream, TooManyUnreadEventsCancelAtOnce) {
  FakeClock clock;
  FakeEngineOptions options;
  options.stream_capacity = 20;
  FakeEngine fake(options, nullptr, &clock);
  const auto handle = MustSubmit(*fake.engine, Request(10, 400));
  // 21 events take 21 steps, after which the load has counted the request; it is gone once it is
  // cancelled.
  while (fake.runner->num_launched() < 21 || fake.engine->load().running > 0) {
    std::this_thread::yield();
  }
  const std::vector<TokenEvent> events = ReadAll(*handle);
  EXPECT_EQ(TokensOf(events, 0).size(), 21u);
  EXPECT_EQ(LastOf(events, 0).finish, FinishReason::kAborted);
}

struct RecordingListener final : StreamListener {
  void OnEventsReady(std::span<const std::uint64_t> tags) override {
    const std::lock_guard<std::mutex> lock(mutex);
    calls.emplace_back(tags.begin(), tags.end());
  }
  std::mutex mutex;
  std::vector<std::vector<std::uint64_t>> calls;
};

TEST(RequestStream, OneCallAStepTellsAListenerOfAllItsStreams) {
  RecordingListener listener, other;
  FakeEngine fake({});
  fake.runner->Hold();
  const auto blocker = MustSubmit(*fake.engine, Request(10, 1));
  fake.runner->AwaitHeldWait();
  const auto a = MustSubmit(*fake.engine, Request(10, 6), &listener, 1);
  const auto b = MustSubmit(*fake.engine, Request(10, 6), &listener, 2);
  const auto c = MustSubmit(*fake.engine, Request(10, 6), &other, 3);
  fake.runner->Release();
  for (RequestHandle* handle : {a.get(), b.get(), c.get()}) ReadAll(*handle);
  ReadAll(*blocker);
  ExpectClean(*fake.engine);
  const std::lock_guard<std::mutex> lock(listener.mutex);
  ASSERT_EQ(listener.calls.size(), 6u);
  for (std::vector<std::uint64_t>& tags : listener.calls) {
    std::sort(tags.begin(), tags.end());
    EXPECT_EQ(tags, (std::vector<std::uint64_t>{1, 2}));
  }
  const std::lock_guard<std::mutex> other_lock(other.mutex);
  EXPECT_EQ(other.calls.size(), 6u);
}

TEST(RequestStream, NoCallReachesAListenerOnceItsHandleIsGone) {
  FakeEngine fake({});
  for (int i = 0; i < 200; ++i) {
    auto listener = std::make_unique<RecordingListener>();
    auto handle = MustSubmit(*fake.engine, Request(10, 300), listener.get(), 1);
    handle->Wait(absl::InfiniteDuration());
    handle.reset();
    listener.reset();  // a late call would be a use after free
  }
  ExpectClean(*fake.engine);
}

TEST(RequestStream, ManyThreadsSubmitReadAndCancel) {
  CountingObserver observer;
  FakeEngineOptions options;
  options.scheduler.num_blocks = 48;
  FakeEngine fake(options, &observer);
  std::vector<std::thread> threads;
  std::atomic<int> num_tokens = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        GenerationRequest request = Request(1 + (t * 40 + i) % 130, 1 + i % 20);
        request.n = 1 + i % 3;
        const auto handle = MustSubmit(*fake.engine, std::move(request));
        if (i % 5 == 4) handle->Cancel();
        if (i % 7 == 6) continue;
        for (const TokenEvent& event : ReadAll(*handle)) num_tokens += event.token.has_value();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(num_tokens.load(), 500);
  ExpectClean(*fake.engine);
  int num_ended = 0;
  for (const std::atomic<int>& ended : observer.num_ended) num_ended += ended;
  EXPECT_EQ(num_ended, 161);
}

}  // namespace
}  // namespace thresher
