#include "engine/deadline_queue.h"

#include <gtest/gtest.h>

namespace thresher {
namespace {

TEST(DeadlineQueue, GivesTheEarliestFirstAndOnlyWhenDue) {
  DeadlineQueue queue;
  const absl::Time start = absl::FromUnixSeconds(1000);
  std::vector<std::shared_ptr<OpenRequest>> requests;
  for (const int seconds : {30, 10, 20}) {
    requests.push_back(std::make_shared<OpenRequest>());
    queue.Add(start + absl::Seconds(seconds), requests.back());
  }
  EXPECT_EQ(queue.TakeExpired(start + absl::Seconds(9)), nullptr);
  EXPECT_EQ(queue.TakeExpired(start + absl::Seconds(20)), requests[1]);
  EXPECT_EQ(queue.TakeExpired(start + absl::Seconds(20)), requests[2]);
  EXPECT_EQ(queue.TakeExpired(start + absl::Seconds(20)), nullptr);
  EXPECT_EQ(queue.TakeExpired(start + absl::Hours(1)), requests[0]);
  EXPECT_EQ(queue.TakeExpired(absl::InfiniteFuture()), nullptr);
}

TEST(DeadlineQueue, PassesOverRequestsThatAreGone) {
  DeadlineQueue queue;
  const absl::Time start = absl::FromUnixSeconds(1000);
  auto gone = std::make_shared<OpenRequest>();
  const auto open = std::make_shared<OpenRequest>();
  queue.Add(start, gone);
  queue.Add(start + absl::Seconds(1), open);
  gone.reset();
  EXPECT_EQ(queue.TakeExpired(start + absl::Seconds(5)), open);
}

}  // namespace
}  // namespace thresher
