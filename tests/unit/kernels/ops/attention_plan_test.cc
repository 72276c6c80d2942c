// What attention kernels refuse, and how decode cuts a row's keys.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/attention_all.h"
#include "tests/support/cpu_backends.h"
#include "tests/support/reference/paged_attention_case.h"

namespace thresher {
namespace {

struct Arrays {
  Arrays() {
    batch.num_heads = 4;
    batch.num_kv_heads = 2;
    batch.head_dim = 64;
    batch.block_size = 16;
  }
  std::vector<std::int32_t> query_start = {0, 3, 4};
  std::vector<std::int32_t> context_length = {5, 40};
  std::vector<std::int32_t> block_tables = {0, 2, 1, 3};
  std::vector<std::int32_t> block_table_start = {0, 1};
  AttentionBatch batch;
};

std::string MessageOf(Arrays arrays) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend({CpuIsa::kAvx2, false});
  const std::unique_ptr<Stream> stream = backend->device().CreateStream().value();
  DeviceBuffer workspace = backend->device().Allocate(1 << 20).value();
  arrays.batch.query_start = arrays.query_start;
  arrays.batch.context_length = arrays.context_length;
  arrays.batch.block_tables = arrays.block_tables;
  arrays.batch.block_table_start = arrays.block_table_start;
  AttentionPlan plan;
  return std::string(
      backend->kernels().rows()[0]->Plan(arrays.batch, workspace, *stream, plan).message());
}

template <typename Spoil>
std::string MessageAfter(const Spoil& spoil) {
  Arrays arrays;
  spoil(arrays);
  return MessageOf(arrays);
}

TEST(AttentionPlanTest, InconsistentBatchesAreNamed) {
  EXPECT_EQ(MessageOf(Arrays()), "");
  EXPECT_EQ(MessageAfter([](Arrays& a) { a.batch.head_dim = 60; }),
            "attention: head_dim % 8 is 4, expected 0");
  EXPECT_EQ(MessageAfter([](Arrays& a) { a.batch.head_dim = 264; }),
            "attention: head_dim is 264, expected 8 to 256");
  EXPECT_EQ(MessageAfter([](Arrays& a) { a.batch.num_heads = 5; }),
            "attention: num_heads % num_kv_heads is 1, expected 0");
  EXPECT_EQ(MessageAfter([](Arrays& a) { a.batch.block_size = 20; }),
            "attention: block_size % 8 is 4, expected 0");
  EXPECT_EQ(MessageAfter([](Arrays& a) { a.query_start.pop_back(); }),
            "attention: query_start.size is 2, expected 3");
  EXPECT_EQ(MessageAfter([](Arrays& a) { a.query_start[2] = 2; }),
            "attention: query length is -1, expected 0 to 16777216");
  EXPECT_EQ(MessageAfter([](Arrays& a) { a.context_length[0] = -1; }),
            "attention: context_length is -1, expected 0 to 16777213");
  EXPECT_EQ(MessageAfter([](Arrays& a) { a.block_tables.pop_back(); }),
            "attention: block_table_start is 1, expected 0 to 0");
  EXPECT_EQ(MessageAfter([](Arrays& a) { a.block_tables[2] = -7; }),
            "attention: block_tables[2] is -7, expected at least 0");
}

TEST(AttentionPlanTest, ASmallWorkspaceIsRefused) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend({CpuIsa::kAvx2, false});
  const std::unique_ptr<Stream> stream = backend->device().CreateStream().value();
  const PagedAttentionCase attention({}, {{600, 1, 1}});
  for (const std::unique_ptr<AttentionKernel>& kernel : backend->kernels().rows()) {
    const std::size_t bytes = kernel->WorkspaceBytes(attention.Batch());
    AttentionPlan plan;
    DeviceBuffer enough = backend->device().Allocate(bytes).value();
    DeviceBuffer less = backend->device().Allocate(bytes / 2).value();
    EXPECT_TRUE(kernel->Plan(attention.Batch(), enough, *stream, plan).ok());
    EXPECT_EQ(kernel->Plan(attention.Batch(), less, *stream, plan).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(AttentionPlanTest, RunRefusesOtherTensorsThanPlanned) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend({CpuIsa::kAvx2, false});
  const std::unique_ptr<Stream> stream = backend->device().CreateStream().value();
  PagedAttentionCase attention({.num_heads = 2, .num_kv_heads = 1, .head_dim = 8},
                               {{0, 17, 1}, {0, 1, 2}});
  const AttentionKernel& kernel = *backend->kernels().rows()[0];
  DeviceBuffer workspace =
      backend->device().Allocate(kernel.WorkspaceBytes(attention.Batch())).value();
  AttentionPlan plan;
  ASSERT_TRUE(kernel.Plan(attention.Batch(), workspace, *stream, plan).ok());
  std::vector<float> q(18 * 2 * 8), out(q.size());
  AttentionLayer layer;
  layer.q = TensorView::Of(q.data(), DType::kF32, 18, 2, 8);
  layer.out = TensorView::Of(out.data(), DType::kF32, 18, 2, 8);
  layer.cache = attention.Cache();
  const auto message = [&](const AttentionLayer& changed) {
    return std::string(kernel.Run(plan, changed, SelectAll{}, *stream).message());
  };
  EXPECT_EQ(message(layer), "");
  AttentionLayer changed = layer;
  changed.q.shape[0] = changed.out.shape[0] = 17;
  EXPECT_EQ(message(changed), "attention: rows of q is 18, expected 0 to 17");
  changed = layer;
  changed.cache.k.dtype = DType::kF32;
  EXPECT_EQ(message(changed),
            "attention: cache.k is f32[4, 1, 16, 8], expected bf16[any, 1, 16, 8]");
  changed = layer;
  changed.cache.k.shape[0] = changed.cache.v.shape[0] = 2;
  EXPECT_EQ(message(changed), "attention: block id is 2, expected -1 to 1");
}

TEST(AttentionPlanTest, AKernelRefusesTheSelectionsOfOtherMechanisms) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend({CpuIsa::kAvx2, false});
  const std::unique_ptr<Stream> stream = backend->device().CreateStream().value();
  const AttentionKernel& kernel =
      *backend->kernels().Find({AttentionMechanism::kAll, AttentionPhase::kDecode});
  EXPECT_EQ(kernel.Run({}, {}, SelectAboveThreshold{}, *stream).message(),
            "attention: the kernel of mechanism `all` carries out SelectAll alone");
  EXPECT_EQ(kernel.Run({}, {}, SelectBlocks{}, *stream).code(), absl::StatusCode::kInvalidArgument);
}

TEST(AttentionPlanTest, SplitsOfARowCoverItsKeysAndStayFew) {
  for (int num_keys = 1; num_keys < 200000; num_keys += 1 + num_keys / 7) {
    const int size = DecodeSplitSize(num_keys), splits = NumDecodeSplits(num_keys);
    EXPECT_EQ(size % 64, 0);
    EXPECT_GE(size * splits, num_keys);
    EXPECT_LT(size * (splits - 1), num_keys);
    EXPECT_LE(splits, 32);
  }
  EXPECT_EQ(NumDecodeSplits(192), 1);
  EXPECT_EQ(NumDecodeSplits(193), 2);
  EXPECT_EQ(NumDecodeSplits(16384), 32);
}

}  // namespace
}  // namespace thresher
