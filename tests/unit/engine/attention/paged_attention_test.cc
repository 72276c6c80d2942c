// Grouping of a step's rows: whatever the mix of decodes, prefills and sequences run again after a
// preemption, each row gets what it would get alone.
#include "engine/attention/paged_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace thresher {
namespace {

constexpr AttentionShape kShape{
    .num_layers = 2, .num_heads = 4, .num_kv_heads = 2, .head_dim = 16, .block_size = 16};
constexpr int kBlocksEach = 4;

struct Row {
  int context_length, query_length, prompt_length;
};

class PagedAttentionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto backend = CreateBackend(DeviceKind::kCpu, 0, {.num_threads = 2});
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    backend_->BindThread();
    stream_ = *backend_->device().CreateStream();
    pool_ = *KvCachePool::Create({kShape.num_layers, 64, kShape.num_kv_heads, kShape.block_size,
                                  kShape.head_dim, DType::kF32},
                                 {}, backend_->device());
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (int layer = 0; layer < kShape.num_layers; ++layer) {
      for (const TensorView& view : {pool_->Layer(layer).k, pool_->Layer(layer).v}) {
        for (std::int64_t i = 0; i < view.num_elements(); ++i) view.as<float>()[i] = normal(random);
      }
    }
    MakeAttention(/*batch_invariant=*/false);
    q_.resize(64 * 4 * 16);
    for (float& x : q_) x = normal(random);
  }

  void MakeAttention(bool batch_invariant) {
    catalog_ = *AttentionCatalog::Create({}, nullptr);
    auto attention = PagedAttention::Create(*catalog_, kShape,
                                            {.max_tokens = 64,
                                             .max_sequences = 16,
                                             .max_sequence_length = 64,
                                             .batch_invariant = batch_invariant},
                                            *pool_, *backend_);
    ASSERT_TRUE(attention.ok()) << attention.status();
    attention_ = *std::move(attention);
  }

  static StepPlan PlanOf(const std::vector<Row>& rows) {
    StepPlan plan;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      plan.sequences.push_back({RequestId{static_cast<std::int64_t>(i)}, rows[i].context_length,
                                rows[i].query_length, true, plan.num_tokens,
                                static_cast<int>(plan.block_table.size()), kBlocksEach});
      for (int b = 0; b < kBlocksEach; ++b) {
        plan.block_table.push_back(BlockId{static_cast<int>(i * 7 + b * 3 + 1) % 64});
      }
      plan.num_tokens += rows[i].query_length;
    }
    return plan;
  }

  // The step's queries are those from `first_query` on.
  absl::Status Run(const std::vector<Row>& rows, int layer, std::vector<float>& out,
                   int first_query = 0) {
    const StepPlan plan = PlanOf(rows);
    std::vector<SequencePolicies> policies;
    for (const Row& row : rows) policies.push_back({row.prompt_length, {}, {}});
    out.assign(static_cast<std::size_t>(plan.num_tokens) * 64, -1);
    absl::Status status = attention_->Plan(plan, policies, *stream_);
    if (!status.ok()) return status;
    return attention_->Run(
        layer, TensorView::Of(q_.data() + first_query * 64, DType::kF32, plan.num_tokens, 4, 16),
        TensorView::Of(out.data(), DType::kF32, plan.num_tokens, 4, 16), *stream_);
  }

  // Row `row` of the step, head `head`, in double.
  std::vector<double> Reference(const StepPlan& plan, int sequence, int row, int position, int head,
                                int layer) const {
    const KvCacheLayer cache = pool_->Layer(layer);
    const auto at = [&](const TensorView& view, int key) {
      const auto blocks = plan.BlocksOf(plan.sequences[sequence]);
      const auto block = static_cast<std::int64_t>(blocks[key / 16]);
      return view.as<float>() + ((block * 2 + head / 2) * 16 + key % 16) * 16;
    };
    std::vector<double> out(16, 0);
    double sum = 0;
    for (int key = 0; key <= position; ++key) {
      double score = 0;
      for (int d = 0; d < 16; ++d) {
        score += static_cast<double>(q_[(row * 4 + head) * 16 + d]) * at(cache.k, key)[d];
      }
      const double weight = std::exp(score / 4);
      sum += weight;
      for (int d = 0; d < 16; ++d) out[d] += weight * at(cache.v, key)[d];
    }
    for (double& x : out) x /= sum;
    return out;
  }

  void ExpectRight(const std::vector<Row>& rows) {
    const StepPlan plan = PlanOf(rows);
    for (int layer = 0; layer < kShape.num_layers; ++layer) {
      std::vector<float> out;
      const absl::Status status = Run(rows, layer, out);
      ASSERT_TRUE(status.ok()) << status;
      int row = 0;
      for (std::size_t s = 0; s < rows.size(); ++s) {
        for (int j = 0; j < rows[s].query_length; ++j, ++row) {
          for (int head = 0; head < 4; ++head) {
            const std::vector<double> expected =
                Reference(plan, static_cast<int>(s), row, rows[s].context_length + j, head, layer);
            // f32 sums of at most 64 terms of magnitude about 1: 64 · 2⁻²⁴ and the exponential's.
            for (int d = 0; d < 16; ++d) {
              ASSERT_NEAR(out[(row * 4 + head) * 16 + d], expected[d], 2e-5)
                  << "sequence " << s << " row " << j;
            }
          }
        }
      }
    }
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<KvCachePool> pool_;
  std::unique_ptr<AttentionCatalog> catalog_;
  std::unique_ptr<PagedAttention> attention_;
  std::vector<float> q_;
};

TEST_F(PagedAttentionTest, DecodesThenPrefills) {
  ExpectRight({{20, 1, 10}, {33, 1, 33}, {0, 9, 30}, {16, 5, 21}});
}

TEST_F(PagedAttentionTest, OneGroupAlone) {
  ExpectRight({{20, 1, 10}, {33, 1, 33}});
  ExpectRight({{0, 30, 30}});
  ExpectRight({{0, 1, 1}});
}

TEST_F(PagedAttentionTest, ARowOfAPromptIsPrefillWhereverItStands) {
  ExpectRight({{12, 1, 13}, {20, 1, 10}, {0, 4, 4}});
}

TEST_F(PagedAttentionTest, ASequenceRunAgainAfterAPreemption) {
  ExpectRight({{20, 1, 10}, {0, 10, 10}, {10, 7, 10}, {17, 1, 10}});
}

// The two kernels round differently: rows past a prompt keep to the one that they had one by one.
TEST_F(PagedAttentionTest, RowsRunAgainHaveTheirFirstBitsIfBatchInvariant) {
  MakeAttention(/*batch_invariant=*/true);
  std::vector<float> together, alone;
  ASSERT_TRUE(Run({{10, 50, 10}, {0, 10, 10}}, 0, together).ok());
  for (int j = 0; j < 50; ++j) {
    ASSERT_TRUE(Run({{10 + j, 1, 10}}, 0, alone, j).ok());
    EXPECT_EQ(alone, std::vector<float>(together.begin() + j * 64, together.begin() + j * 64 + 64))
        << "row " << j;
  }
  ExpectRight({{20, 1, 10}, {0, 10, 10}, {10, 7, 10}, {3, 4, 10}, {17, 1, 10}});
}

TEST_F(PagedAttentionTest, PlansReplaceOneAnother) {
  ExpectRight({{20, 1, 10}, {33, 1, 33}, {40, 1, 2}, {0, 9, 30}});
  ExpectRight({{0, 3, 30}});
  ExpectRight({{5, 1, 2}});
}

}  // namespace
}  // namespace thresher
