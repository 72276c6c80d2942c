#include "server/quota.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

namespace thresher {
namespace {

TEST(QuotaTest, SharesTogetherStayWithinTheLimit) {
  Quota quota("bytes of request bodies", 10);
  std::optional<Quota::Share> first(quota);
  Quota::Share second(quota);
  EXPECT_TRUE(first->GrowTo(4).ok());
  EXPECT_TRUE(first->GrowTo(6).ok());
  EXPECT_TRUE(first->GrowTo(2).ok());  // not less
  EXPECT_EQ(quota.held(), 6);
  const absl::Status refused = second.GrowTo(5);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "the server has no room for more bytes of request bodies: its limit is 10");
  EXPECT_EQ(quota.held(), 6);
  EXPECT_TRUE(second.GrowTo(4).ok());
  first.reset();
  EXPECT_EQ(quota.held(), 4);
  EXPECT_TRUE(second.GrowTo(10).ok());
  second.Release();
  second.Release();
  EXPECT_EQ(quota.held(), 0);
}

TEST(QuotaTest, AMovedShareIsGivenBackOnce) {
  Quota quota("things", 10);
  {
    Quota::Share first(quota);
    EXPECT_TRUE(first.GrowTo(3).ok());
    Quota::Share second(std::move(first));
    EXPECT_EQ(quota.held(), 3);
    Quota::Share third(quota);
    EXPECT_TRUE(third.GrowTo(4).ok());
    third = std::move(second);
    EXPECT_EQ(quota.held(), 7);
  }
  EXPECT_EQ(quota.held(), 0);
}

TEST(QuotaTest, ThreadsNeverHoldMoreThanTheLimit) {
  Quota quota("things", 3);
  std::atomic<int> open = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 2000; ++round) {
        Quota::Share share(quota);
        if (!share.GrowTo(1).ok()) continue;
        EXPECT_LE(++open, 3);
        --open;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(quota.held(), 0);
}

}  // namespace
}  // namespace thresher
