#include "engine/deadline_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace thresher {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);

TEST(DeadlineQueue, GivesTheEarliestFirstAndOnlyOnce) {
  DeadlineQueue queue;
  std::vector<std::shared_ptr<OpenRequest>> requests;
  for (const int seconds : {3, 1, 2}) {
    requests.push_back(std::make_shared<OpenRequest>());
    queue.Add(kStart + absl::Seconds(seconds), requests.back());
  }
  EXPECT_EQ(queue.TakeExpired(kStart), nullptr);
  EXPECT_EQ(queue.TakeExpired(kStart + absl::Seconds(2)), requests[1]);
  EXPECT_EQ(queue.TakeExpired(kStart + absl::Seconds(2)), requests[2]);
  EXPECT_EQ(queue.TakeExpired(kStart + absl::Seconds(2)), nullptr);
  EXPECT_EQ(queue.TakeExpired(kStart + absl::Hours(1)), requests[0]);
}

TEST(DeadlineQueue, ForgetsRequestsThatAreGoneLongBeforeTheirDeadline) {
  DeadlineQueue queue;
  const auto kept = std::make_shared<OpenRequest>();
  queue.Add(kStart + absl::Hours(2), kept);
  for (int i = 0; i < 10'000; ++i) {
    queue.Add(kStart + absl::Hours(1), std::make_shared<OpenRequest>());
    ASSERT_LE(queue.num_entries(), static_cast<int>(DeadlineQueue::kMinPruned));
  }
  EXPECT_EQ(queue.TakeExpired(kStart + absl::Hours(3)), kept);
  EXPECT_EQ(queue.num_entries(), 0);
}

// With many alive the queue grows with them, and every one is still given in order.
TEST(DeadlineQueue, KeepsAllThatAreAlive) {
  DeadlineQueue queue;
  std::vector<std::shared_ptr<OpenRequest>> requests;
  for (int i = 0; i < 1000; ++i) {
    requests.push_back(std::make_shared<OpenRequest>());
    queue.Add(kStart + absl::Seconds(i * 7 % 1000), requests.back());
    queue.Add(kStart, std::make_shared<OpenRequest>());
  }
  EXPECT_LE(queue.num_entries(), 2000);
  for (int second = 0; second < 1000; ++second) {
    // 143 · 7 = 1001: the inverse of 7 modulo 1000.
    EXPECT_EQ(queue.TakeExpired(kStart + absl::Seconds(second)), requests[second * 143 % 1000]);
  }
}

}  // namespace
}  // namespace thresher
