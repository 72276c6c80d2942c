#include "engine/runner/worker_group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "kernels/backend.h"

namespace thresher {
namespace {

TEST(WorkerGroup, RunsEachTaskOnEveryRankInOrder) {
  WorkerGroup workers(3, nullptr);
  std::vector<std::vector<int>> seen(3);
  std::int64_t last = 0;
  for (int task = 0; task < 50; ++task) {
    last = workers.Post([&seen, task](int rank) {
      seen[static_cast<std::size_t>(rank)].push_back(task);
      return absl::OkStatus();
    });
    if (task % 2 == 1) {
      EXPECT_TRUE(workers.Wait(last - 1).ok());
    }
  }
  EXPECT_TRUE(workers.Wait(last).ok());
  for (const std::vector<int>& tasks : seen) {
    ASSERT_EQ(tasks.size(), 50u);
    for (int task = 0; task < 50; ++task) EXPECT_EQ(tasks[static_cast<std::size_t>(task)], task);
  }
}

TEST(WorkerGroup, KeepsTheFirstErrorAndSkipsWhatFollows) {
  std::atomic<int> num_aborts = 0, num_later = 0;
  WorkerGroup workers(2, [&] { ++num_aborts; });
  EXPECT_TRUE(workers.Run([](int) { return absl::OkStatus(); }).ok());
  const absl::Status failed = workers.Run(
      [](int rank) { return rank == 1 ? absl::InternalError("device lost") : absl::OkStatus(); });
  EXPECT_EQ(failed.code(), absl::StatusCode::kInternal);
  const absl::Status later = workers.Run([&](int) {
    ++num_later;
    return absl::OkStatus();
  });
  EXPECT_EQ(std::string(later.message()), "device lost");
  EXPECT_EQ(num_later.load(), 0);
  EXPECT_EQ(num_aborts.load(), 1);
}

// The case of a rank that sits in a collective which another rank never enters.
TEST(WorkerGroup, AFailedRankFreesThoseThatWaitForIt) {
  const auto groups = CreateInProcessGroup(4);
  WorkerGroup workers(4, [&] { groups[0]->Abort(); });
  const absl::Status status = workers.Run([&](int rank) -> absl::Status {
    if (rank == 2) return absl::InternalError("rank 2 fails before the collective");
    std::byte token{};
    const auto group = groups[static_cast<std::size_t>(rank)].get();
    // The CPU's collectives run in the caller, so no stream is looked at.
    struct NoStream final : Stream {
      absl::Status Synchronize() override { return absl::OkStatus(); }
    } stream;
    return group->Broadcast({&token, 1}, stream);
  });
  EXPECT_EQ(std::string(status.message()), "rank 2 fails before the collective");
}

TEST(WorkerGroup, DestructionRunsWhatWasPosted) {
  std::atomic<int> num_runs = 0;
  {
    WorkerGroup workers(2, nullptr);
    for (int i = 0; i < WorkerGroup::kMaxPosted; ++i) {
      workers.Post([&](int) {
        ++num_runs;
        return absl::OkStatus();
      });
    }
  }
  EXPECT_EQ(num_runs.load(), 2 * WorkerGroup::kMaxPosted);
}

}  // namespace
}  // namespace thresher
