#include "engine/attention/calibrate/observing_attention.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

constexpr int kBlockSize = 16;

}  // namespace

absl::StatusOr<std::unique_ptr<ObservingAttention>> ObservingAttention::Create(
    const CausalLm& model, Backend& backend, DType kv_dtype, int max_length) {
  std::unique_ptr<ObservingAttention> attention(new ObservingAttention(backend.score_observer()));
  const ModelConfig& config = model.config();
  const int num_blocks = (max_length + kBlockSize - 1) / kBlockSize;
  absl::StatusOr<std::unique_ptr<KvCachePool>> pool =
      KvCachePool::Create({.num_layers = config.num_layers,
                           .num_blocks = num_blocks,
                           .num_kv_heads = model.num_local_kv_heads(),
                           .block_size = kBlockSize,
                           .head_dim = config.head_dim,
                           .dtype = kv_dtype},
                          {}, backend.device());
  if (!pool.ok()) return pool.status();
  attention->pool_ = *std::move(pool);
  attention->shape_.num_heads = model.num_local_heads();
  attention->shape_.num_kv_heads = model.num_local_kv_heads();
  attention->shape_.head_dim = config.head_dim;
  attention->shape_.block_size = kBlockSize;
  attention->scale_ = 1 / std::sqrt(static_cast<float>(config.head_dim));
  attention->block_table_.resize(static_cast<std::size_t>(num_blocks));
  std::iota(attention->block_table_.begin(), attention->block_table_.end(), 0);
  attention->block_table_start_ = {0};
  attention->kernel_ = backend.kernels().Find({.mechanism = AttentionMechanism::kAll,
                                               .phase = AttentionPhase::kPrefill,
                                               .kv_dtype = kv_dtype,
                                               .head_dim = config.head_dim});
  if (attention->kernel_ == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("this device has no dense prefill attention with a ",
                     std::string(Name(kv_dtype)), " cache and head size ", config.head_dim));
  }
  attention->query_start_ = {0, max_length};
  attention->context_length_ = {0};
  AttentionBatch largest = attention->shape_;
  largest.query_start = attention->query_start_;
  largest.context_length = attention->context_length_;
  largest.block_tables = attention->block_table_;
  largest.block_table_start = attention->block_table_start_;
  absl::StatusOr<DeviceBuffer> workspace =
      backend.device().Allocate(attention->kernel_->WorkspaceBytes(largest));
  if (!workspace.ok()) return workspace.status();
  attention->workspace_ = *std::move(workspace);
  return attention;
}

absl::Status ObservingAttention::PlanKernel(int context_length, int query_length, Stream& stream) {
  query_start_ = {0, query_length};
  context_length_ = {context_length};
  AttentionBatch batch = shape_;
  batch.query_start = query_start_;
  batch.context_length = context_length_;
  batch.block_tables = block_table_;
  batch.block_table_start = block_table_start_;
  return kernel_->Plan(batch, workspace_, stream, plan_);
}

absl::Status ObservingAttention::Plan(int context_length, int query_length,
                                      std::span<const std::int32_t> rows,
                                      std::span<const std::int32_t> buckets,
                                      ScoreStatistics& statistics, Stream& stream) {
  statistics_ = &statistics;
  rows_.clear();
  buckets_.clear();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int32_t query = rows[i] - context_length;
    if (query < 0 || query >= query_length) continue;
    rows_.push_back(query);
    buckets_.push_back(buckets[i]);
  }
  // Blocks lie in order, so a slot is a position.
  slots_.resize(static_cast<std::size_t>(query_length));
  std::iota(slots_.begin(), slots_.end(), std::int64_t{context_length});
  return PlanKernel(context_length, query_length, stream);
}

absl::Status ObservingAttention::Run(int layer_index, TensorView q, TensorView out,
                                     Stream& stream) {
  const AttentionLayer layer{.q = q, .cache = CacheOf(layer_index), .scale = scale_, .out = out};
  if (!rows_.empty()) {
    absl::Status status = observer_.Observe(plan_, layer,
                                            {.rows = rows_,
                                             .buckets = buckets_,
                                             .histograms = statistics_->Layer(layer_index),
                                             .outside = &statistics_->outside},
                                            stream);
    if (!status.ok()) return status;
  }
  return kernel_->Run(plan_, layer, SelectAll{}, stream);
}

absl::Status ObservingAttention::ObserveValues(int length, std::span<const float> mean_values,
                                               std::span<ValueSums> moments,
                                               std::span<double> totals, Stream& stream) {
  absl::Status status = PlanKernel(0, length, stream);
  if (!status.ok()) return status;
  const auto heads = static_cast<std::size_t>(shape_.num_kv_heads);
  const std::size_t elements = heads * static_cast<std::size_t>(shape_.head_dim);
  AttentionLayer cached;
  for (int i = 0; i < pool_->shape().num_layers && status.ok(); ++i) {
    const auto layer = static_cast<std::size_t>(i);
    cached.cache = CacheOf(i);
    status = observer_.ObserveValues(
        plan_, cached,
        mean_values.empty() ? mean_values : mean_values.subspan(layer * elements, elements),
        moments.subspan(layer * heads, heads), totals.subspan(layer * elements, elements), stream);
  }
  return status;
}

}  // namespace thresher
