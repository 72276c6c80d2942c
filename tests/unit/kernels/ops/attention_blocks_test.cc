// Attention over lists of blocks against the double reference and against mechanism `all`, for
// every instruction set that the machine has. "Oracle n" is item n of the method's list of tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "tests/support/cpu_backends.h"
#include "tests/support/reference/paged_attention_case.h"

namespace thresher {
namespace {

constexpr DType kDTypes[] = {DType::kBF16, DType::kF16, DType::kF32};

// Lists in memory, for each query block and head; empty: kAllBlocks.
struct BlockLists {
  std::vector<std::int32_t> query_block_start = {0};
  std::vector<std::set<int>> lists;
  int num_heads = 0;
  std::vector<std::int32_t> list_length;
  std::vector<std::uint16_t> blocks;

  SelectBlocks Select() {
    std::size_t capacity = 1;
    for (const std::set<int>& list : lists) capacity = std::max(capacity, list.size());
    list_length.clear();
    blocks.assign(lists.size() * capacity, 0xffff);
    for (std::size_t i = 0; i < lists.size(); ++i) {
      list_length.push_back(lists[i].empty() ? kAllBlocks
                                             : static_cast<std::int32_t>(lists[i].size()));
      std::copy(lists[i].begin(), lists[i].end(), blocks.begin() + i * capacity);
    }
    return {query_block_start, list_length.data(), blocks.data(), static_cast<int>(capacity)};
  }
};

// choose(own_block, sequence, head): the row's list.
template <typename Choose>
BlockLists MakeLists(const PagedAttentionCase& attention, const Choose& choose) {
  BlockLists lists;
  lists.num_heads = attention.shape().num_heads;
  for (std::size_t s = 0; s < attention.sequences().size(); ++s) {
    const PagedSequence& sequence = attention.sequences()[s];
    const int first = sequence.context_length / kSelectionBlock;
    const int count = NumQueryBlocks(sequence.context_length, sequence.query_length);
    for (int own = first; own < first + count; ++own) {
      for (int head = 0; head < lists.num_heads; ++head) {
        lists.lists.push_back(choose(own, static_cast<int>(s), head));
      }
    }
    lists.query_block_start.push_back(lists.query_block_start.back() + count);
  }
  return lists;
}

// A seeded list for the row: its own block and each other one with probability `share`.
std::set<int> RandomList(int own, int sequence, int head, double share) {
  std::mt19937_64 random(own * 1000 + sequence * 100 + head);
  std::set<int> list = {own};
  for (int block = 0; block < own; ++block) {
    if (static_cast<double>(random() >> 11) * 0x1p-53 < share) list.insert(block);
  }
  return list;
}

class AttentionBlocksTest : public testing::TestWithParam<CpuVariant> {
 protected:
  void SetUp() override {
    if (!MachineRuns(GetParam())) GTEST_SKIP() << "this machine lacks the instruction set";
    backend_ = MakeCpuBackend(GetParam(), 2);
  }

  const AttentionKernel& Kernel(AttentionMechanism mechanism, DType kv_dtype) {
    const AttentionKernel* kernel =
        backend_->kernels().Find({mechanism, AttentionPhase::kPrefill, kv_dtype, 64});
    EXPECT_NE(kernel, nullptr);
    return *kernel;
  }
  const AttentionKernel& Blocks(DType kv_dtype) {
    return Kernel(AttentionMechanism::kBlocks, kv_dtype);
  }

  DType ProductType(DType kv_dtype) const {
    const bool rounds = GetParam().isa == CpuIsa::kAvx512Bf16 && !GetParam().full_precision &&
                        kv_dtype == DType::kBF16;
    return rounds ? DType::kBF16 : DType::kF32;
  }

  void ExpectConforms(PagedAttentionCase& attention, BlockLists lists, int query_stride) {
    const DType kv_dtype = attention.shape().kv_dtype;
    const auto out = attention.Run(Blocks(kv_dtype), *backend_, lists.Select());
    ASSERT_TRUE(out.ok()) << out.status();
    const auto sees = [&](int sequence, int head, int query, int key) {
      const int row = lists.query_block_start[sequence] + query / kSelectionBlock -
                      attention.sequences()[sequence].context_length / kSelectionBlock;
      const std::set<int>& list = lists.lists[row * lists.num_heads + head];
      return list.empty() || list.contains(key / kSelectionBlock);
    };
    const PagedAttentionCase::Reference reference =
        attention.ComputeReference(ProductType(kv_dtype), query_stride, sees);
    for (std::size_t i = 0; i < out->size(); ++i) {
      const double difference = std::fabs((*out)[i] - reference.out[i]);
      // Not "greater": a NaN must fail.
      ASSERT_TRUE(difference <= reference.bound[i])
          << "element " << i << " is " << (*out)[i] << ", reference " << reference.out[i]
          << ", bound " << reference.bound[i] << ", cache " << Name(kv_dtype);
    }
  }

  std::unique_ptr<Backend> backend_;
};

TEST_P(AttentionBlocksTest, MatchesTheMaskedReferenceForEveryGroupAndBlockSize) {
  struct Shape {
    int heads, kv_heads, head_dim, block_size;
  };
  for (const Shape& s : {Shape{2, 2, 64, 16},
                         {3, 1, 128, 32},
                         {8, 2, 64, 64},
                         {8, 1, 128, 128},
                         {2, 1, 64, 256},
                         {3, 3, 8, 8},
                         {2, 2, 72, 16}}) {
    for (const DType kv_dtype : kDTypes) {
      PagedAttentionCase attention({.num_heads = s.heads,
                                    .num_kv_heads = s.kv_heads,
                                    .head_dim = s.head_dim,
                                    .block_size = s.block_size,
                                    .kv_dtype = kv_dtype},
                                   {{0, 300, 1}, {700, 65, 2}, {127, 2, 3}});
      ExpectConforms(
          attention,
          MakeLists(attention, [](int own, int sequence,
                                  int head) { return RandomList(own, sequence, head, 0.4); }),
          29);
    }
  }
}

TEST_P(AttentionBlocksTest, RoundedOutputsAndRowsOfAllBlocksAmongLists) {
  PagedAttentionCase attention(
      {.num_heads = 4, .num_kv_heads = 1, .head_dim = 64, .out_dtype = DType::kBF16},
      {{0, 500, 1}, {256, 300, 2}});
  ExpectConforms(attention,
                 MakeLists(attention,
                           [](int own, int sequence, int head) {
                             return head == 1 ? std::set<int>{}
                                              : RandomList(own, sequence, head, 0.3);
                           }),
                 23);
}

// Also for rows of a partial first block, and beside rows with other lists.
TEST_P(AttentionBlocksTest, Oracle1AllBlocksHasTheBitsOfMechanismAll) {
  for (const DType kv_dtype : kDTypes) {
    for (const int head_dim : {64, 128, 72}) {
      PagedAttentionCase attention({.num_heads = 6,
                                    .num_kv_heads = 2,
                                    .head_dim = head_dim,
                                    .block_size = 32,
                                    .kv_dtype = kv_dtype},
                                   {{0, 421, 1}, {290, 133, 2}, {900, 3, 3}});
      const std::vector<float> all =
          attention.Run(Kernel(AttentionMechanism::kAll, kv_dtype), *backend_).value();
      EXPECT_EQ(attention.Run(Blocks(kv_dtype), *backend_).value(), all);
      BlockLists explicit_lists = MakeLists(attention, [](int own, int, int) {
        std::set<int> list;
        for (int block = 0; block <= own; ++block) list.insert(block);
        return list;
      });
      EXPECT_EQ(attention.Run(Blocks(kv_dtype), *backend_, explicit_lists.Select()).value(), all);
      BlockLists marked = MakeLists(attention, [](int, int, int) { return std::set<int>{}; });
      EXPECT_EQ(attention.Run(Blocks(kv_dtype), *backend_, marked.Select()).value(), all);
    }
  }
}

TEST_P(AttentionBlocksTest, Oracle7DenseRowsHaveTheBitsOfMechanismAll) {
  PagedAttentionCase attention({.num_heads = 3, .num_kv_heads = 1, .head_dim = 64}, {{0, 900, 1}});
  const std::vector<float> all =
      attention.Run(Kernel(AttentionMechanism::kAll, DType::kBF16), *backend_).value();
  BlockLists lists = MakeLists(attention, [](int own, int, int) {
    return own < 3 ? std::set<int>{} : std::set<int>{0, own};
  });
  const std::vector<float> out =
      attention.Run(Blocks(DType::kBF16), *backend_, lists.Select()).value();
  const std::ptrdiff_t dense = 3 * kSelectionBlock * 3 * 64;
  EXPECT_TRUE(std::equal(all.begin(), all.begin() + dense, out.begin()));
  EXPECT_FALSE(std::equal(all.begin() + dense, all.end(), out.begin() + dense));
}

TEST_P(AttentionBlocksTest, BlocksOffTheListsAreNotRead) {
  for (const DType kv_dtype : kDTypes) {
    PagedAttentionCase attention(
        {.num_heads = 4, .num_kv_heads = 2, .head_dim = 64, .block_size = 16, .kv_dtype = kv_dtype},
        {{640, 250, 1}});
    // KV head 0 loses blocks 1 and 4, KV head 1 block 2; no list of their heads has them.
    BlockLists lists = MakeLists(attention, [](int own, int, int head) {
      return head < 2 ? std::set<int>{0, 2, 3, own} : std::set<int>{1, 3, 4, own};
    });
    const std::vector<float> expected =
        attention.Run(Blocks(kv_dtype), *backend_, lists.Select()).value();
    const std::vector<float> nan(64, std::numeric_limits<float>::quiet_NaN());
    for (const auto& [kv_head, block] : {std::pair{0, 1}, {0, 4}, {1, 2}, {1, 0}}) {
      for (int i = 0; i < kSelectionBlock; ++i) {
        attention.SetKey(0, kv_head, block * kSelectionBlock + i, nan);
        attention.SetValue(0, kv_head, block * kSelectionBlock + i, nan);
      }
    }
    EXPECT_EQ(attention.Run(Blocks(kv_dtype), *backend_, lists.Select()).value(), expected);
    const std::vector<float> dense = attention.Run(Blocks(kv_dtype), *backend_).value();
    EXPECT_TRUE(std::all_of(dense.begin(), dense.end(), [](float x) { return std::isnan(x); }));
  }
}

TEST_P(AttentionBlocksTest, Oracle9ChunksOfAPrefillDoNotChangeABit) {
  const PagedAttentionShape shape = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 64};
  const auto choose = [](int own, int, int head) { return RandomList(own, 0, head, 0.4); };
  PagedAttentionCase whole(shape, {{0, 900, 5}});
  const std::vector<float> expected =
      whole.Run(Blocks(DType::kBF16), *backend_, MakeLists(whole, choose).Select()).value();
  for (const int chunk : {128, 384, 50}) {
    std::vector<float> out;
    for (int begin = 0; begin < 900; begin += chunk) {
      PagedAttentionCase part(shape, {{begin, std::min(chunk, 900 - begin), 5}});
      const std::vector<float> rows =
          part.Run(Blocks(DType::kBF16), *backend_, MakeLists(part, choose).Select()).value();
      out.insert(out.end(), rows.begin(), rows.end());
    }
    EXPECT_EQ(out, expected) << chunk;
  }
}

TEST_P(AttentionBlocksTest, Oracle15DeterminismWithOtherThreadsAndBatches) {
  const PagedAttentionShape shape = {.num_heads = 6, .num_kv_heads = 2, .head_dim = 64};
  const auto choose = [](int own, int, int head) { return RandomList(own, 0, head, 0.5); };
  PagedAttentionCase alone(shape, {{300, 400, 42}});
  const std::vector<float> expected =
      alone.Run(Blocks(DType::kBF16), *backend_, MakeLists(alone, choose).Select()).value();
  PagedAttentionCase crowd(shape, {{0, 130, 1}, {300, 400, 42}, {512, 40, 3}});
  for (const int num_threads : {1, 3}) {
    const std::unique_ptr<Backend> other = MakeCpuBackend(GetParam(), num_threads);
    const AttentionKernel& kernel = *other->kernels().Find(
        {AttentionMechanism::kBlocks, AttentionPhase::kPrefill, DType::kBF16, 64});
    for (int run = 0; run < 3; ++run) {
      EXPECT_EQ(alone.Run(kernel, *other, MakeLists(alone, choose).Select()).value(), expected);
    }
    const std::vector<float> all =
        crowd.Run(kernel, *other, MakeLists(crowd, choose).Select()).value();
    EXPECT_TRUE(
        std::equal(expected.begin(), expected.end(), all.begin() + crowd.query_start(1) * 6 * 64));
  }
}

TEST_P(AttentionBlocksTest, RefusesOtherSelectionsAndListsThatDoNotFit) {
  PagedAttentionCase attention({.num_heads = 2, .num_kv_heads = 1, .head_dim = 64},
                               {{128, 300, 1}, {0, 5, 2}});
  const AttentionKernel& kernel = Blocks(DType::kBF16);
  const auto message = [&](const KvSelection& selection) {
    const absl::Status status = attention.Run(kernel, *backend_, selection).status();
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  EXPECT_EQ(message(SelectAboveThreshold{}),
            "attention over blocks: the selection is not of blocks");
  const auto choose = [](int own, int, int) { return std::set<int>{own}; };
  BlockLists lists = MakeLists(attention, choose);
  EXPECT_EQ(message(lists.Select()), "");
  SelectBlocks select = lists.Select();
  lists.list_length[3] = 2;
  EXPECT_EQ(message(select), "attention over blocks: list_length is 2, expected 1 to 1");
  lists.list_length[3] = 0;
  EXPECT_EQ(message(select), "attention over blocks: list_length is 0, expected 1 to 1");
  lists.list_length[3] = 1;
  lists.blocks[3] = 1;
  EXPECT_EQ(message(select), "attention over blocks: last block of a list is 1, expected 2");
  select = lists.Select();
  select.capacity = 0;
  EXPECT_EQ(message(select), "attention over blocks: capacity is 0, expected 1 to 65536");
  select = lists.Select();
  select.blocks = nullptr;
  EXPECT_EQ(message(select), "attention over blocks: the lists have no memory");
  lists.query_block_start[1] = 2;
  EXPECT_EQ(message(lists.Select()), "attention over blocks: query_block_start is 2, expected 3");
  lists.query_block_start.pop_back();
  EXPECT_EQ(message(lists.Select()),
            "attention over blocks: query_block_start.size is 2, expected 3");
}

// A plan fits the workspace of the largest batch however its queries are dealt out.
TEST_P(AttentionBlocksTest, WorkspaceOfTheLargestBatchFitsSmallerOnes) {
  const PagedAttentionShape shape = {.num_heads = 3, .num_kv_heads = 1, .head_dim = 8};
  const PagedAttentionCase largest(shape, {{900, 100, 1}, {900, 100, 1}, {900, 100, 1}});
  const AttentionKernel& kernel = Blocks(DType::kBF16);
  DeviceBuffer workspace =
      backend_->device().Allocate(kernel.WorkspaceBytes(largest.Batch())).value();
  const std::unique_ptr<Stream> stream = backend_->device().CreateStream().value();
  AttentionPlan plan;
  for (const std::vector<PagedSequence>& sequences : {std::vector<PagedSequence>{{700, 300, 1}},
                                                      {{127, 298, 1}, {127, 1, 2}, {0, 1, 3}},
                                                      {{127, 2, 1}, {255, 2, 2}, {47, 296, 3}}}) {
    const PagedAttentionCase attention(shape, sequences);
    EXPECT_TRUE(kernel.Plan(attention.Batch(), workspace, *stream, plan).ok());
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, AttentionBlocksTest, testing::ValuesIn(kCpuVariants),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace thresher
