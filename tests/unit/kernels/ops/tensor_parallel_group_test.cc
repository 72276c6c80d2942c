#include "kernels/ops/tensor_parallel_group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "tests/support/reference/numbers.h"

namespace thresher {
namespace {

class NoWaitStream final : public Stream {
 public:
  absl::Status Synchronize() override { return absl::OkStatus(); }
};

// Runs `body(group)` on a thread for each rank.
void RunRanks(std::vector<std::unique_ptr<TensorParallelGroup>>& ranks,
              const std::function<void(TensorParallelGroup&)>& body) {
  std::vector<std::thread> threads;
  for (const std::unique_ptr<TensorParallelGroup>& rank : ranks) {
    threads.emplace_back([&body, group = rank.get()] { body(*group); });
  }
  for (std::thread& thread : threads) thread.join();
}

class TensorParallelGroupTest : public testing::TestWithParam<int> {
 protected:
  TensorParallelGroupTest() : ranks_(CreateInProcessGroup(GetParam())) {}
  std::vector<std::unique_ptr<TensorParallelGroup>> ranks_;
  NoWaitStream stream_;
};

std::vector<float> ValuesOf(int rank, std::int64_t count) {
  // Sizes differ by rank, so that another order of the sum would round differently.
  return NormalValues(count, rank == 1 ? 1e4 : 1.0, 100 + rank);
}

TEST_P(TensorParallelGroupTest, KnowsItsRanks) {
  ASSERT_EQ(static_cast<int>(ranks_.size()), GetParam());
  for (int rank = 0; rank < GetParam(); ++rank) {
    EXPECT_EQ(ranks_[rank]->rank(), rank);
    EXPECT_EQ(ranks_[rank]->size(), GetParam());
  }
}

TEST_P(TensorParallelGroupTest, AllReduceAddsInRankOrderOnEveryRank) {
  for (const std::int64_t count : {0, 1, 15, 16, 17, 576, 5000}) {
    std::vector<float> expected = ValuesOf(0, count);
    for (int rank = 1; rank < GetParam(); ++rank) {
      const std::vector<float> theirs = ValuesOf(rank, count);
      for (std::int64_t i = 0; i < count; ++i) expected[i] += theirs[i];
    }
    RunRanks(ranks_, [&](TensorParallelGroup& group) {
      std::vector<float> mine = ValuesOf(group.rank(), count);
      const absl::Status status =
          group.AllReduceSum(TensorView::Of(mine.data(), DType::kF32, 1, count), stream_);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(mine, expected);
    });
  }
}

TEST_P(TensorParallelGroupTest, ManyOperationsInARowKeepInStep) {
  RunRanks(ranks_, [&](TensorParallelGroup& group) {
    for (int step = 0; step < 300; ++step) {
      std::vector<float> value = {static_cast<float>(step + group.rank())};
      ASSERT_TRUE(group.AllReduceSum(TensorView::Of(value.data(), DType::kF32, 1), stream_).ok());
      const int size = GetParam();
      ASSERT_EQ(value[0], static_cast<float>(step * size + size * (size - 1) / 2));
    }
  });
}

TEST_P(TensorParallelGroupTest, AllGatherPutsColumnsInRankOrder) {
  const int size = GetParam();
  RunRanks(ranks_, [&](TensorParallelGroup& group) {
    std::vector<float> in = ValuesOf(group.rank(), 3 * 5);
    std::vector<float> out(3 * 5 * size);
    ASSERT_TRUE(group
                    .AllGatherColumns(TensorView::Of(in.data(), DType::kF32, 3, 5),
                                      TensorView::Of(out.data(), DType::kF32, 3, 5 * size), stream_)
                    .ok());
    for (int rank = 0; rank < size; ++rank) {
      const std::vector<float> theirs = ValuesOf(rank, 3 * 5);
      for (int row = 0; row < 3; ++row) {
        for (int c = 0; c < 5; ++c) {
          EXPECT_EQ(out[row * 5 * size + rank * 5 + c], theirs[row * 5 + c]);
        }
      }
    }
  });
}

TEST_P(TensorParallelGroupTest, BroadcastGivesRankZerosBytes) {
  RunRanks(ranks_, [&](TensorParallelGroup& group) {
    std::vector<std::byte> bytes(1000, std::byte(group.rank() + 1));
    ASSERT_TRUE(group.Broadcast(bytes, stream_).ok());
    EXPECT_EQ(bytes, std::vector<std::byte>(1000, std::byte{1}));
    EXPECT_TRUE(group.Broadcast({}, stream_).ok());
  });
}

TEST_P(TensorParallelGroupTest, AbortEndsPresentAndLaterCalls) {
  // Rank 0 waits for ever, were it not for the Abort of the last rank.
  std::vector<float> value(4);
  const TensorView tensor = TensorView::Of(value.data(), DType::kF32, 4);
  RunRanks(ranks_, [&](TensorParallelGroup& group) {
    if (group.rank() == GetParam() - 1) {
      group.Abort();
    } else {
      EXPECT_EQ(group.Broadcast({}, stream_).code(), absl::StatusCode::kUnavailable);
    }
    EXPECT_EQ(group.Broadcast({}, stream_).code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(group.AllReduceSum(tensor, stream_).code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(group.AllGatherColumns(tensor, tensor, stream_).ok(), false);
  });
}

TEST_P(TensorParallelGroupTest, WrongTensorsAreRefused) {
  RunRanks(ranks_, [&](TensorParallelGroup& group) {
    std::vector<float> value(4);
    // A group of one has nothing to add, so that any type will do.
    EXPECT_EQ(group.AllReduceSum(TensorView::Of(value.data(), DType::kBF16, 4), stream_).code(),
              GetParam() == 1 ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(group
                  .AllGatherColumns(TensorView::Of(value.data(), DType::kF32, 2, 2),
                                    TensorView::Of(value.data(), DType::kF32, 2, 1), stream_)
                  .code(),
              absl::StatusCode::kInvalidArgument);
    // The group still works.
    EXPECT_TRUE(group.AllReduceSum(TensorView::Of(value.data(), DType::kF32, 4), stream_).ok());
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, TensorParallelGroupTest, testing::Values(1, 2, 3, 4));

TEST(InProcessGroupTest, RanksThatDisagreeAllHearOfIt) {
  std::vector<std::unique_ptr<TensorParallelGroup>> ranks = CreateInProcessGroup(3);
  NoWaitStream stream;
  std::atomic<int> refused{0};
  RunRanks(ranks, [&](TensorParallelGroup& group) {
    std::vector<float> value(8);
    const int count = group.rank() == 1 ? 8 : 7;
    const absl::Status sizes =
        group.AllReduceSum(TensorView::Of(value.data(), DType::kF32, count), stream);
    EXPECT_EQ(sizes.message(), "rank 1 brings another size than rank 0");
    const absl::Status operations =
        group.rank() == 2
            ? group.Broadcast({}, stream)
            : group.AllReduceSum(TensorView::Of(value.data(), DType::kF32, 0), stream);
    EXPECT_EQ(operations.message(), "rank 2 runs another operation than rank 0");
    refused += sizes.ok() || operations.ok() ? 0 : 1;
  });
  EXPECT_EQ(refused, 3);
}

TEST(InProcessGroupTest, ARankThatGoesAwayIsNotWaitedFor) {
  std::vector<std::unique_ptr<TensorParallelGroup>> ranks = CreateInProcessGroup(2);
  NoWaitStream stream;
  absl::Status status;
  std::thread waiting([&] { status = ranks[0]->Broadcast({}, stream); });
  ranks[1].reset();
  waiting.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
}

TEST(InProcessGroupTest, TheLastOperationCountsThoughARankLeavesAtOnce) {
  for (int round = 0; round < 200; ++round) {
    std::vector<std::unique_ptr<TensorParallelGroup>> ranks = CreateInProcessGroup(3);
    std::vector<std::thread> threads;
    for (std::unique_ptr<TensorParallelGroup>& rank : ranks) {
      threads.emplace_back([group = std::move(rank)]() mutable {
        NoWaitStream stream;
        EXPECT_TRUE(group->Broadcast({}, stream).ok());
        group.reset();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace thresher
