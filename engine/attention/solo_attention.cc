#include "engine/attention/solo_attention.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

constexpr int kBlockSize = 16;

}  // namespace

absl::StatusOr<std::unique_ptr<SoloAttention>> SoloAttention::Create(const CausalLm& model,
                                                                     Backend& backend,
                                                                     DType kv_dtype,
                                                                     int max_length) {
  std::unique_ptr<SoloAttention> attention(new SoloAttention);
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
  attention->scale_ = 1 / std::sqrt(static_cast<float>(config.head_dim));
  for (int block = num_blocks - 1; block >= 0; --block) attention->block_table_.push_back(block);
  attention->block_table_start_ = {0};
  attention->query_start_ = {0, max_length};
  attention->context_length_ = {0};
  attention->batch_ = {.num_heads = model.num_local_heads(),
                       .num_kv_heads = model.num_local_kv_heads(),
                       .head_dim = config.head_dim,
                       .block_size = kBlockSize,
                       .query_start = attention->query_start_,
                       .first_row = {},
                       .context_length = attention->context_length_,
                       .block_tables = attention->block_table_,
                       .block_table_start = attention->block_table_start_};
  attention->kernel_ = backend.kernels().Find({.mechanism = AttentionMechanism::kAll,
                                               .phase = AttentionPhase::kPrefill,
                                               .kv_dtype = kv_dtype,
                                               .head_dim = config.head_dim});
  if (attention->kernel_ == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("this device has no dense prefill attention with a ",
                     std::string(Name(kv_dtype)), " cache and head size ", config.head_dim));
  }
  absl::StatusOr<DeviceBuffer> workspace =
      backend.device().Allocate(attention->kernel_->WorkspaceBytes(attention->batch_));
  if (!workspace.ok()) return workspace.status();
  attention->workspace_ = *std::move(workspace);
  return attention;
}

absl::Status SoloAttention::Plan(int context_length, int query_length, Stream& stream) {
  query_start_[1] = query_length;
  context_length_[0] = context_length;
  slots_.clear();
  for (int position = context_length; position < context_length + query_length; ++position) {
    const std::int64_t block = block_table_[static_cast<std::size_t>(position / kBlockSize)];
    slots_.push_back(block * kBlockSize + position % kBlockSize);
  }
  return kernel_->Plan(batch_, workspace_, stream, plan_);
}

AttentionLayer SoloAttention::Layer(int layer_index, TensorView q, TensorView out) {
  return {.q = q, .cache = CacheOf(layer_index), .scale = scale_, .out = out};
}

absl::Status SoloAttention::Run(int layer_index, TensorView q, TensorView out, Stream& stream) {
  return kernel_->Run(plan_, Layer(layer_index, q, out), SelectAll{}, stream);
}

}  // namespace thresher
