#include "kernels/cpu/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"

namespace thresher {
namespace {

class ParallelTest : public testing::TestWithParam<int> {};

TEST_P(ParallelTest, ForEachThreadRunsEveryThreadOnce) {
  ThreadTeam team(GetParam());
  for (int region = 0; region < 50; ++region) {
    std::vector<int> calls(GetParam(), 0);
    team.ForEachThread([&](int thread) { ++calls[thread]; });
    EXPECT_EQ(calls, std::vector<int>(GetParam(), 1));
  }
}

TEST_P(ParallelTest, ParallelForRunsEveryTaskOnceOnAThreadOfTheTeam) {
  ThreadTeam team(GetParam());
  for (int num_tasks : {0, 1, 2, 7, 1000}) {
    std::vector<int> calls(num_tasks, 0);
    team.ParallelFor(num_tasks, [&](std::int64_t task, int thread) {
      calls[task] += thread >= 0 && thread < GetParam() ? 1 : 100;
    });
    EXPECT_EQ(calls, std::vector<int>(num_tasks, 1));
  }
}

TEST_P(ParallelTest, ParallelRangesCoverTheCountOnce) {
  ThreadTeam team(GetParam());
  for (std::int64_t count : {0, 1, 2, 3, 1001}) {
    for (std::int64_t cost : {std::int64_t{1}, ThreadTeam::kSerialWork}) {
      std::vector<int> calls(count, 0);
      team.ParallelRanges(count, cost, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = begin; i < end; ++i) ++calls[i];
      });
      EXPECT_EQ(calls, std::vector<int>(count, 1));
    }
  }
}

TEST_P(ParallelTest, TeamsOfSeveralCallersDoNotMeet) {
  std::vector<std::int64_t> sums(3, 0);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&, caller] {
      ThreadTeam team(GetParam());
      team.BindCaller();
      std::atomic<std::int64_t> sum{0};
      for (int region = 0; region < 20; ++region) {
        team.ParallelFor(100, [&](std::int64_t task, int) { sum += task; });
      }
      sums[caller] = sum;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sums, std::vector<std::int64_t>(3, 20 * 4950));
}

INSTANTIATE_TEST_SUITE_P(Threads, ParallelTest, testing::Values(1, 2, 3, 8));

TEST(ThreadPoolTest, RunsEveryThreadInEveryRegion) {
  ThreadPool pool(4);
  std::vector<int> calls(4, 0);
  std::vector<int>* const counts = &calls;
  for (int region = 0; region < 200; ++region) {
    pool.Run([](const void* body,
                int thread) { ++(**static_cast<std::vector<int>* const*>(body))[thread]; },
             &counts);
  }
  EXPECT_EQ(calls, std::vector<int>(4, 200));
}

TEST(UsableCoresTest, ThereIsAtLeastOneUsableCore) { EXPECT_GE(NumUsableCores(), 1); }

}  // namespace
}  // namespace thresher
