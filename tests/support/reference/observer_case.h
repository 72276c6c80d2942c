// A batch of queries over a paged cache with seeded contents, and its scores in double.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "kernels/backend.h"
#include "tests/support/reference/numbers.h"

namespace thresher {

struct ObserverShape {
  int num_heads = 6, num_kv_heads = 2, head_dim = 24, block_size = 8;
  DType kv_dtype = DType::kBF16;
  std::vector<std::int32_t> context_length, query_length;
  double spread = 1.5;  // deviation of the queries' elements
};

// A batch with seeded contents in shuffled blocks; unwritten slots hold NaN.
class ObserverCase final {
 public:
  ObserverCase(const ObserverShape& shape, Backend& backend) : shape_(shape) {
    int num_blocks = 0;
    for (std::size_t s = 0; s < shape.query_length.size(); ++s) {
      query_start_.push_back(query_start_.back() + shape.query_length[s]);
      table_start_.push_back(static_cast<std::int32_t>(tables_.size()));
      const int length = shape.context_length[s] + shape.query_length[s];
      for (int i = 0; i < length; i += shape.block_size) tables_.push_back(num_blocks++);
    }
    std::shuffle(tables_.begin(), tables_.end(), std::mt19937(3));
    const int row = shape.num_kv_heads * shape.head_dim;
    k_.resize(static_cast<std::size_t>(num_blocks * shape.block_size * row));
    v_.resize(k_.size());
    FillWithNan();
    for (std::size_t s = 0; s < shape.query_length.size(); ++s) FillSequence(static_cast<int>(s));
    q_ = NormalValues(std::int64_t{query_start_.back()} * shape.num_heads * shape.head_dim,
                      shape.spread, 5);
    const AttentionKernel* kernel = backend.kernels().Find(
        {AttentionMechanism::kAll, AttentionPhase::kPrefill, shape.kv_dtype, shape.head_dim});
    stream_ = *backend.device().CreateStream();
    workspace_ = *backend.device().Allocate(kernel->WorkspaceBytes(Batch()));
    const absl::Status status = kernel->Plan(Batch(), workspace_, *stream_, plan_);
    EXPECT_TRUE(status.ok()) << status;
    layer_.q = TensorView::Of(q_.data(), DType::kF32, query_start_.back(), shape.num_heads,
                              shape.head_dim);
    layer_.out = layer_.q;  // not written
    layer_.cache = {CacheView(k_, num_blocks), CacheView(v_, num_blocks)};
    layer_.scale = 0.25f;
  }

  AttentionBatch Batch() const {
    AttentionBatch batch;
    batch.num_heads = shape_.num_heads;
    batch.num_kv_heads = shape_.num_kv_heads;
    batch.head_dim = shape_.head_dim;
    batch.block_size = shape_.block_size;
    batch.query_start = query_start_;
    batch.context_length = shape_.context_length;
    batch.block_tables = tables_;
    batch.block_table_start = table_start_;
    return batch;
  }

  // s of every key that a row sees, in double.
  std::vector<double> Scores(int sequence, int query, int head) const {
    const int num_keys = shape_.context_length[sequence] + query + 1;
    const float* q =
        &q_[((query_start_[sequence] + query) * shape_.num_heads + head) * shape_.head_dim];
    std::vector<double> scores;
    for (int key = 0; key < num_keys; ++key) {
      const std::int64_t at =
          ElementOf(sequence, head / (shape_.num_heads / shape_.num_kv_heads), key);
      double dot = 0;
      for (int d = 0; d < shape_.head_dim; ++d) {
        dot += double{q[d]} * ReadElement(k_.data(), shape_.kv_dtype, at + d);
      }
      scores.push_back(dot * 0.25);
    }
    return scores;
  }

  std::vector<double> Value(int sequence, int kv_head, int position) const {
    std::vector<double> value;
    const std::int64_t at = ElementOf(sequence, kv_head, position);
    for (int d = 0; d < shape_.head_dim; ++d) {
      value.push_back(ReadElement(v_.data(), shape_.kv_dtype, at + d));
    }
    return value;
  }

  absl::Status Observe(Backend& backend, const ScoreObservation& observation) {
    return backend.score_observer().Observe(plan_, layer_, observation, *stream_);
  }
  const AttentionPlan& plan() const { return plan_; }
  AttentionLayer& layer() { return layer_; }
  Stream& stream() { return *stream_; }

 private:
  void FillWithNan() {
    const auto count = static_cast<std::int64_t>(k_.size());
    for (std::int64_t i = 0; i < count; ++i) {
      WriteElement(k_.data(), shape_.kv_dtype, i, std::numeric_limits<float>::quiet_NaN());
      WriteElement(v_.data(), shape_.kv_dtype, i, std::numeric_limits<float>::quiet_NaN());
    }
  }

  void FillSequence(int sequence) {
    const int length = shape_.context_length[sequence] + shape_.query_length[sequence];
    const int row = shape_.num_kv_heads * shape_.head_dim;
    const auto seed = static_cast<std::uint64_t>(10 + 2 * sequence);
    const std::vector<float> k = NormalValues(std::int64_t{length} * row, 1, seed);
    const std::vector<float> v = NormalValues(std::int64_t{length} * row, 1, seed + 1);
    for (int i = 0; i < length * row; ++i) {
      const int head = i % row / shape_.head_dim;
      const std::int64_t to = ElementOf(sequence, head, i / row) + i % shape_.head_dim;
      WriteElement(k_.data(), shape_.kv_dtype, to, k[static_cast<std::size_t>(i)]);
      WriteElement(v_.data(), shape_.kv_dtype, to, v[static_cast<std::size_t>(i)] + 0.5f);
    }
  }

  std::int64_t ElementOf(int sequence, int kv_head, int position) const {
    const std::int64_t block = tables_[table_start_[sequence] + position / shape_.block_size];
    return ((block * shape_.num_kv_heads + kv_head) * shape_.block_size +
            position % shape_.block_size) *
           shape_.head_dim;
  }

  TensorView CacheView(std::vector<float>& storage, int num_blocks) const {
    return TensorView::Of(storage.data(), shape_.kv_dtype, num_blocks, shape_.num_kv_heads,
                          shape_.block_size, shape_.head_dim);
  }

  ObserverShape shape_;
  std::vector<std::int32_t> query_start_ = {0}, tables_, table_start_;
  std::vector<float> q_, k_, v_;  // k_ and v_: storage of any dtype
  std::unique_ptr<Stream> stream_;
  DeviceBuffer workspace_;
  AttentionPlan plan_;
  AttentionLayer layer_;
};

}  // namespace thresher
