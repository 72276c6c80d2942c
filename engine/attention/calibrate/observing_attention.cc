#include "engine/attention/calibrate/observing_attention.h"

namespace thresher {

absl::StatusOr<std::unique_ptr<ObservingAttention>> ObservingAttention::Create(
    const CausalLm& model, Backend& backend, DType kv_dtype, int max_length) {
  absl::StatusOr<std::unique_ptr<SoloAttention>> dense =
      SoloAttention::Create(model, backend, kv_dtype, max_length);
  if (!dense.ok()) return dense.status();
  return std::unique_ptr<ObservingAttention>(
      new ObservingAttention(backend.score_observer(), *std::move(dense)));
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
  return dense_->Plan(context_length, query_length, stream);
}

absl::Status ObservingAttention::Run(int layer_index, TensorView q, TensorView out,
                                     Stream& stream) {
  if (!rows_.empty()) {
    absl::Status status = observer_.Observe(dense_->plan(), dense_->Layer(layer_index, q, out),
                                            {.rows = rows_,
                                             .buckets = buckets_,
                                             .histograms = statistics_->Layer(layer_index),
                                             .outside = &statistics_->outside},
                                            stream);
    if (!status.ok()) return status;
  }
  return dense_->Run(layer_index, q, out, stream);
}

absl::Status ObservingAttention::ObserveValues(int length, std::span<const float> mean_values,
                                               std::span<ValueSums> moments,
                                               std::span<double> totals, Stream& stream) {
  absl::Status status = dense_->Plan(0, length, stream);
  const KvCacheShape& shape = dense_->cache_shape();
  const auto heads = static_cast<std::size_t>(shape.num_kv_heads);
  const std::size_t elements = heads * static_cast<std::size_t>(shape.head_dim);
  AttentionLayer cached;
  for (int i = 0; i < shape.num_layers && status.ok(); ++i) {
    const auto layer = static_cast<std::size_t>(i);
    cached.cache = CacheOf(i);
    status = observer_.ObserveValues(
        dense_->plan(), cached,
        mean_values.empty() ? mean_values : mean_values.subspan(layer * elements, elements),
        moments.subspan(layer * heads, heads), totals.subspan(layer * elements, elements), stream);
  }
  return status;
}

}  // namespace thresher
