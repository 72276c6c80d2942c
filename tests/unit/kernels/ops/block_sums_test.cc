// The sums of K and V that RotateAndAppend keeps for each block (top_theta.md §14, item 13).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/ops/transformer_ops.h"
#include "tests/support/cpu_backends.h"
#include "tests/support/reference/numbers.h"

namespace thresher {
namespace {

constexpr int kNumBlocks = 8, kBlockSize = 16, kHeads = 2, kKvHeads = 2, kHeadDim = 24;
constexpr int kRowFloats = (kHeads + 2 * kKvHeads) * kHeadDim;

// A cache with sums, into which a sequence of 100 positions over shuffled blocks is written.
class Cache final {
 public:
  explicit Cache(DType dtype)
      : dtype_(dtype),
        qkv_(NormalValues(100 * kRowFloats, 1.0, 3)),
        cos_sin_(NormalValues(100 * kHeadDim, 0.7, 4)),
        k_(kNumBlocks * kKvHeads * kBlockSize * kHeadDim, 0xffffffffu),
        v_(k_),
        k_sums_(kNumBlocks * kKvHeads * kHeadDim, NAN),
        v_sums_(k_sums_) {}

  absl::Status Append(Backend& backend, int first, int end) {
    const int n = end - first;
    std::vector<std::int32_t> positions;
    std::vector<std::int64_t> slots;
    for (int i = first; i < end; ++i) {
      positions.push_back(i);
      slots.push_back(std::int64_t{table[i / kBlockSize]} * kBlockSize + i % kBlockSize);
    }
    std::vector<float> q(n * kHeads * kHeadDim);
    const std::unique_ptr<Stream> stream = backend.device().CreateStream().value();
    return backend.ops().RotateAndAppend(
        TensorView::Of(qkv_.data() + first * kRowFloats, DType::kF32, n, kRowFloats),
        {.num_heads = kHeads, .num_kv_heads = kKvHeads, .head_dim = kHeadDim}, {},
        {TensorView::Of(cos_sin_.data(), DType::kF32, 100, kHeadDim), kHeadDim}, positions, slots,
        TensorView::Of(q.data(), DType::kF32, n, kHeads, kHeadDim), View(), *stream);
  }

  KvCacheLayer View() {
    const auto cache = [&](std::vector<std::uint32_t>& storage) {
      return TensorView::Of(storage.data(), dtype_, kNumBlocks, kKvHeads, kBlockSize, kHeadDim);
    };
    const auto sums = [&](std::vector<float>& storage) {
      return TensorView::Of(storage.data(), DType::kF32, kNumBlocks, kKvHeads, kHeadDim);
    };
    return {cache(k_), cache(v_), sums(k_sums_), sums(v_sums_)};
  }

  // Of the first `length` positions, from what the cache holds.
  void ExpectFreshSums(int length) {
    for (int head = 0; head < kKvHeads; ++head) {
      for (int d = 0; d < kHeadDim; ++d) {
        for (int block = 0; block * kBlockSize < length; ++block) {
          double k = 0, v = 0;
          for (int i = block * kBlockSize; i < std::min(length, (block + 1) * kBlockSize); ++i) {
            const std::int64_t at =
                ((std::int64_t{table[block]} * kKvHeads + head) * kBlockSize + i % kBlockSize) *
                    kHeadDim +
                d;
            k += ReadElement(k_.data(), dtype_, at);
            v += ReadElement(v_.data(), dtype_, at);
          }
          const std::int64_t at = (std::int64_t{table[block]} * kKvHeads + head) * kHeadDim + d;
          EXPECT_NEAR(k_sums_[at], k, 1e-5);
          EXPECT_NEAR(v_sums_[at], v, 1e-5);
        }
      }
    }
  }

  // Bits of the sums of the sequence's first `length` positions.
  std::vector<std::uint32_t> SumBits(int length) const {
    std::vector<std::uint32_t> bits;
    for (int block = 0; block * kBlockSize < length; ++block) {
      for (int i = 0; i < kKvHeads * kHeadDim; ++i) {
        const std::int64_t at = std::int64_t{table[block]} * kKvHeads * kHeadDim + i;
        bits.push_back(std::bit_cast<std::uint32_t>(k_sums_[at]));
        bits.push_back(std::bit_cast<std::uint32_t>(v_sums_[at]));
      }
    }
    return bits;
  }

  std::vector<int> table = {5, 2, 7, 0, 3, 6, 1};

 private:
  const DType dtype_;
  std::vector<float> qkv_, cos_sin_;
  std::vector<std::uint32_t> k_, v_;
  std::vector<float> k_sums_, v_sums_;
};

class BlockSumsTest : public testing::TestWithParam<CpuVariant> {
 protected:
  void SetUp() override {
    if (!MachineRuns(GetParam())) GTEST_SKIP() << "this machine lacks the instruction set";
    backend_ = MakeCpuBackend(GetParam(), 2);
  }
  std::unique_ptr<Backend> backend_;
};

TEST_P(BlockSumsTest, Item13SumsOfAppendedRowsEqualAFreshSum) {
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    Cache cache(dtype);
    ASSERT_TRUE(cache.Append(*backend_, 0, 90).ok());
    for (int i = 90; i < 100; ++i) ASSERT_TRUE(cache.Append(*backend_, i, i + 1).ok());
    cache.ExpectFreshSums(100);
  }
}

TEST_P(BlockSumsTest, Item13ChunksDoNotChangeABitOfTheSums) {
  Cache whole(DType::kBF16);
  ASSERT_TRUE(whole.Append(*backend_, 0, 100).ok());
  for (const std::vector<int>& cuts :
       {std::vector<int>{0, 1, 2, 40, 41, 100}, {0, 16, 64, 100}, {0, 99, 100}}) {
    Cache cut(DType::kBF16);
    for (std::size_t i = 1; i < cuts.size(); ++i) {
      ASSERT_TRUE(cut.Append(*backend_, cuts[i - 1], cuts[i]).ok());
    }
    EXPECT_EQ(cut.SumBits(100), whole.SumBits(100));
  }
}

// A sequence that shares another's first blocks and appends to blocks of its own, which hold what
// an ended one has left.
TEST_P(BlockSumsTest, Item13SharedPrefixesKeepTheirSumsAndReusedBlocksStartAnew) {
  Cache cache(DType::kBF16);
  ASSERT_TRUE(cache.Append(*backend_, 0, 100).ok());
  const std::vector<std::uint32_t> expected = cache.SumBits(100);
  cache.table = {5, 2, 7, 4, 0, 3, 6};  // three blocks kept, the others dealt out again
  ASSERT_TRUE(cache.Append(*backend_, 48, 100).ok());
  EXPECT_EQ(cache.SumBits(100), expected);
  cache.ExpectFreshSums(100);
}

TEST_P(BlockSumsTest, BadSumsAreNamed) {
  Cache cache(DType::kBF16);
  const std::unique_ptr<Stream> stream = backend_->device().CreateStream().value();
  KvCacheLayer view = cache.View();
  view.v_sums.shape[1] = 3;
  std::vector<float> q(kHeads * kHeadDim), qkv(kRowFloats), cos_sin(kHeadDim);
  const std::vector<std::int32_t> positions = {0};
  const std::vector<std::int64_t> slots = {0};
  const absl::Status status = backend_->ops().RotateAndAppend(
      TensorView::Of(qkv.data(), DType::kF32, 1, kRowFloats),
      {.num_heads = kHeads, .num_kv_heads = kKvHeads, .head_dim = kHeadDim}, {},
      {TensorView::Of(cos_sin.data(), DType::kF32, 1, kHeadDim), kHeadDim}, positions, slots,
      TensorView::Of(q.data(), DType::kF32, 1, kHeads, kHeadDim), view, *stream);
  EXPECT_EQ(status.message(),
            "rotate_and_append: cache.v_sums is f32[8, 3, 24], expected f32[8, 2, 24]");
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, BlockSumsTest, testing::ValuesIn(kCpuVariants),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace thresher
