#include "scheduler/queue_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/simulation/random.h"

namespace thresher {
namespace {

std::vector<int> OrderOf(const QueueOrder& queue) {
  std::vector<int> order;
  for (int i = 0; i < queue.size(); ++i) order.push_back(queue.request(i));
  return order;
}

TEST(QueueOrder, GoesByPriorityThenArrival) {
  QueueOrder queue(8, 100);
  queue.Insert(0, /*priority=*/1, /*arrival=*/0);
  queue.Insert(1, 0, 1);
  queue.Insert(2, 1, 2);
  queue.Insert(3, -1, 3);
  queue.Insert(4, 0, 4);
  EXPECT_EQ(OrderOf(queue), (std::vector{3, 1, 4, 0, 2}));
}

TEST(QueueOrder, APreemptedRequestComesBackBeforeItsEquals) {
  QueueOrder queue(8, 100);
  queue.Insert(5, 0, 5);
  queue.Insert(6, 0, 6);
  queue.Insert(2, 0, 2);
  EXPECT_EQ(OrderOf(queue), (std::vector{2, 5, 6}));
}

TEST(QueueOrder, AStepOfPriorityIsWorthABoundedNumberOfArrivals) {
  QueueOrder queue(8, /*arrivals_per_priority=*/10);
  queue.Insert(0, 1, 0);
  queue.Insert(1, 0, 9);   // came later, within the worth of a priority
  queue.Insert(2, 0, 11);  // too late to overtake
  EXPECT_EQ(OrderOf(queue), (std::vector{1, 0, 2}));
}

TEST(QueueOrder, CountsSkipsOfTheRequestThatWaits) {
  QueueOrder queue(4, 10);
  queue.Insert(0, 0, 0);
  queue.Insert(1, 0, 1);
  queue.CountSkip(1);
  queue.EraseAt(0);
  EXPECT_EQ(queue.skips(0), 1);
  queue.Erase(1, 0, 1);
  EXPECT_TRUE(queue.empty());
}

TEST(QueueOrder, AgreesWithSortingThroughManyMoves) {
  simulation::Random random(1);
  QueueOrder queue(20, 5);
  struct Item {
    std::int64_t key;
    std::int64_t arrival;
    int request;
    int priority;
  };
  std::vector<Item> items;
  for (int i = 0; i < 20000; ++i) {
    if (items.size() < 20 && (items.empty() || random.Percent(55))) {
      const int priority = random.Between(-2, 2);
      items.push_back({i + priority * std::int64_t{5}, i, i % 1000, priority});
      queue.Insert(i % 1000, priority, i);
      std::ranges::sort(items, [](const Item& a, const Item& b) {
        return a.key != b.key ? a.key < b.key : a.arrival < b.arrival;
      });
    } else {
      const int position = random.Between(0, static_cast<int>(items.size()) - 1);
      const Item item = items[position];
      if (random.Percent(50)) {
        queue.EraseAt(position);
      } else {
        queue.Erase(item.request, item.priority, item.arrival);
      }
      items.erase(items.begin() + position);
    }
    std::vector<int> expected;
    for (const Item& item : items) expected.push_back(item.request);
    ASSERT_EQ(OrderOf(queue), expected) << "move " << i;
    ASSERT_TRUE(queue.CheckInvariants().ok());
  }
}

}  // namespace
}  // namespace thresher
