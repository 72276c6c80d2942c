// Every attention kernel of the table against the double reference, for every backend of the
// binary.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "tests/support/reference/paged_attention_case.h"
#include "tests/support/tested_backends.h"

namespace thresher {
namespace {

class AttentionConformanceTest : public testing::TestWithParam<BackendVariant> {
 protected:
  void SetUp() override {
    if (!MachineRuns(GetParam()))
      GTEST_SKIP() << "NOT RUN: this machine lacks the device or the instruction set";
    backend_ = MakeTestedBackend(GetParam());
  }

  DType ProductType(const AttentionKey& key) const { return ProductTypeOf(GetParam(), key); }

  void ExpectConforms(const AttentionKernel& kernel, PagedAttentionShape shape,
                      const std::vector<PagedSequence>& sequences) {
    shape.kv_dtype = kernel.key().kv_dtype;
    PagedAttentionCase attention(shape, sequences);
    const absl::StatusOr<std::vector<float>> out = attention.Run(kernel, *backend_);
    ASSERT_TRUE(out.ok()) << out.status();
    if (kernel.key().mechanism != AttentionMechanism::kAll) {
      // What reads all is bitwise what the mechanism `all` makes of it.
      EXPECT_EQ(*out, attention.Run(AllOf(kernel.key()), *backend_).value());
      return;
    }
    const PagedAttentionCase::Reference reference =
        attention.ComputeReference(ProductType(kernel.key()));
    for (std::size_t i = 0; i < out->size(); ++i) {
      const double difference = std::fabs((*out)[i] - reference.out[i]);
      // Not "greater": a NaN must fail.
      ASSERT_TRUE(difference <= reference.bound[i])
          << "element " << i << " is " << (*out)[i] << ", reference " << reference.out[i]
          << ", bound " << reference.bound[i] << "; head_dim " << shape.head_dim << ", "
          << shape.num_heads << "/" << shape.num_kv_heads << " heads, block size "
          << shape.block_size << ", cache " << Name(shape.kv_dtype) << ", phase "
          << static_cast<int>(kernel.key().phase);
    }
  }

  const AttentionKernel& AllOf(AttentionKey key) const {
    key.mechanism = AttentionMechanism::kAll;
    return *backend_->kernels().Find(key);
  }

  // Runs `check` with each row of the table; a row for one head_dim gets that alone.
  template <typename Check>
  void ForEachRow(const Check& check) {
    ASSERT_FALSE(backend_->kernels().rows().empty());
    for (const std::unique_ptr<AttentionKernel>& row : backend_->kernels().rows()) {
      check(*row, [&](int head_dim) {
        return row->key().head_dim == 0 || row->key().head_dim == head_dim;
      });
    }
  }

  std::unique_ptr<Backend> backend_;
};

constexpr PagedSequence kRagged[] = {{0, 1, 1}, {0, 19, 2}, {130, 2, 3}, {63, 1, 4}, {64, 18, 5}};

TEST_P(AttentionConformanceTest, EveryHeadDimOfEveryRow) {
  ForEachRow([&](const AttentionKernel& kernel, const auto& serves) {
    for (int head_dim = 8; head_dim <= 256; head_dim += head_dim < 80 ? 8 : 56) {
      if (!serves(head_dim)) continue;
      ExpectConforms(kernel, {.num_heads = 3, .num_kv_heads = 1, .head_dim = head_dim},
                     {{0, 9, 1}, {66, 2, 2}});
    }
    if (serves(128)) {
      ExpectConforms(kernel, {.num_heads = 3, .num_kv_heads = 1, .head_dim = 128},
                     {{0, 9, 1}, {66, 2, 2}});
    }
  });
}

TEST_P(AttentionConformanceTest, EveryGroupSizeAndBlockSizeWithRaggedBatches) {
  ForEachRow([&](const AttentionKernel& kernel, const auto&) {
    for (const auto& [heads, kv_heads] :
         {std::pair{3, 3}, {4, 2}, {9, 3}, {8, 2}, {5, 1}, {14, 2}, {8, 1}, {25, 1}}) {
      const int only = kernel.key().head_dim;
      const int head_dim = only != 0 ? only : heads == 9 || heads == 14 ? 64 : 16;
      const int block_size = heads == 4 ? 8 : heads == 9 ? 64 : heads == 14 ? 128 : 16;
      ExpectConforms(kernel,
                     {.num_heads = heads,
                      .num_kv_heads = kv_heads,
                      .head_dim = head_dim,
                      .block_size = block_size},
                     std::vector<PagedSequence>(std::begin(kRagged), std::end(kRagged)));
    }
  });
}

TEST_P(AttentionConformanceTest, LongContextsAndRoundedOutputs) {
  ForEachRow([&](const AttentionKernel& kernel, const auto& serves) {
    for (const int head_dim : {64, 128}) {
      if (!serves(head_dim)) continue;
      ExpectConforms(kernel,
                     {.num_heads = 6,
                      .num_kv_heads = 2,
                      .head_dim = head_dim,
                      .block_size = 32,
                      .out_dtype = DType::kBF16,
                      .q_dtype = backend_->ops().activation_dtype()},
                     {{700, 2, 1}, {192, 1, 2}, {191, 1, 3}, {383, 2, 4}, {700, 1, 5}});
    }
  });
}

TEST_P(AttentionConformanceTest, BatchMatesDoNotChangeABit) {
  const PagedSequence mine = {420, 7, 42};
  ForEachRow([&](const AttentionKernel& kernel, const auto& serves) {
    if (!serves(64)) return;
    const PagedAttentionShape shape = {.num_heads = 9,
                                       .num_kv_heads = 3,
                                       .head_dim = 64,
                                       .block_size = 64,
                                       .kv_dtype = kernel.key().kv_dtype};
    PagedAttentionCase alone(shape, {mine});
    PagedAttentionCase crowd(shape, {{0, 20, 1}, {100, 1, 2}, mine, {17, 20, 3}, {500, 1, 4}});
    const std::vector<float> expected = alone.Run(kernel, *backend_).value();
    const std::vector<float> all = crowd.Run(kernel, *backend_).value();
    const auto first = all.begin() + crowd.query_start(2) * 9 * 64;
    EXPECT_EQ(std::vector<float>(first, first + static_cast<std::int64_t>(expected.size())),
              expected);
  });
}

TEST_P(AttentionConformanceTest, ChunksOfAPrefillDoNotChangeABit) {
  ForEachRow([&](const AttentionKernel& kernel, const auto& serves) {
    if (kernel.key().phase != AttentionPhase::kPrefill || !serves(64)) return;
    const PagedAttentionShape shape = {.num_heads = 6,
                                       .num_kv_heads = 2,
                                       .head_dim = 64,
                                       .block_size = 16,
                                       .kv_dtype = kernel.key().kv_dtype};
    const std::vector<float> whole =
        PagedAttentionCase(shape, {{0, 150, 5}}).Run(kernel, *backend_).value();
    for (const auto& [begin, end] : {std::pair{0, 1}, {0, 64}, {64, 100}, {100, 150}, {149, 150}}) {
      // The whole sequence's contents are drawn in order, so a cut at `end` starts the same way.
      const std::vector<float> chunk =
          PagedAttentionCase(shape, {{begin, end - begin, 5}}).Run(kernel, *backend_).value();
      EXPECT_EQ(chunk,
                std::vector<float>(whole.begin() + begin * 6 * 64, whole.begin() + end * 6 * 64))
          << begin << " to " << end;
    }
  });
}

// Tokens that are run again many at once get the bits that they got one by one.
TEST_P(AttentionConformanceTest, QueriesOfADecodeAtOnceHaveTheBitsOfEachAlone) {
  ForEachRow([&](const AttentionKernel& kernel, const auto& serves) {
    if (kernel.key().phase != AttentionPhase::kDecode || !serves(64)) return;
    const PagedAttentionShape shape = {.num_heads = 6,
                                       .num_kv_heads = 2,
                                       .head_dim = 64,
                                       .block_size = 16,
                                       .kv_dtype = kernel.key().kv_dtype};
    const std::vector<float> together =
        PagedAttentionCase(shape, {{187, 600, 5}}).Run(kernel, *backend_).value();
    for (const int query : {0, 4, 5, 6, 196, 197, 598, 599}) {
      const std::vector<float> alone =
          PagedAttentionCase(shape, {{187 + query, 1, 5}}).Run(kernel, *backend_).value();
      const auto first = together.begin() + query * 6 * 64;
      EXPECT_EQ(std::vector<float>(first, first + 6 * 64), alone) << query;
    }
  });
}

TEST_P(AttentionConformanceTest, PrefillAndDecodeAgreeWithinRounding) {
  for (const DType kv_dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    AttentionKey key = {AttentionMechanism::kAll, AttentionPhase::kPrefill, kv_dtype, 64};
    const AttentionKernel* prefill = backend_->kernels().Find(key);
    key.phase = AttentionPhase::kDecode;
    const AttentionKernel* decode = backend_->kernels().Find(key);
    ASSERT_NE(prefill, nullptr);
    ASSERT_NE(decode, nullptr);
    PagedAttentionCase attention(
        {.num_heads = 9, .num_kv_heads = 3, .head_dim = 64, .kv_dtype = kv_dtype},
        {{300, 5, 1}, {0, 20, 2}});
    const std::vector<float> a = attention.Run(*prefill, *backend_).value();
    const std::vector<float> b = attention.Run(*decode, *backend_).value();
    const std::vector<double> bound_a =
        attention.ComputeReference(ProductType(prefill->key())).bound;
    const std::vector<double> bound_b =
        attention.ComputeReference(ProductType(decode->key())).bound;
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_NEAR(a[i], b[i], bound_a[i] + bound_b[i]) << i;
    }
  }
}

TEST_P(AttentionConformanceTest, ThreadsDoNotChangeABit) {
  const std::unique_ptr<Backend> other = MakeTestedBackend(GetParam(), 3);
  for (std::size_t row = 0; row < backend_->kernels().rows().size(); ++row) {
    const AttentionKernel& kernel = *backend_->kernels().rows()[row];
    PagedAttentionCase attention(
        {.num_heads = 6,
         .num_kv_heads = 2,
         .head_dim = kernel.key().head_dim == 0 ? 64 : kernel.key().head_dim,
         .kv_dtype = kernel.key().kv_dtype},
        {{600, 2, 1}, {0, 50, 2}, {600, 1, 3}});
    EXPECT_EQ(attention.Run(kernel, *backend_).value(),
              attention.Run(*other->kernels().rows()[row], *other).value());
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, AttentionConformanceTest, testing::ValuesIn(TestedBackends()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace thresher
