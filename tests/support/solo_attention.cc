#include "tests/support/solo_attention.h"

#include <cmath>
#include <cstring>
#include <utility>

namespace thresher::testing {

absl::StatusOr<std::unique_ptr<SoloAttention>> SoloAttention::Create(const CausalLm& model,
                                                                     Backend& backend,
                                                                     DType kv_dtype,
                                                                     int max_length) {
  auto attention = std::make_unique<SoloAttention>();
  const int head_dim = model.config().head_dim;
  attention->shape_.num_heads = model.num_local_heads();
  attention->shape_.num_kv_heads = model.num_local_kv_heads();
  attention->shape_.head_dim = head_dim;
  attention->shape_.block_size = kBlockSize;
  attention->scale_ = static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)));
  attention->kv_dtype_ = kv_dtype;
  attention->num_blocks_ = (max_length + kBlockSize - 1) / kBlockSize;
  const auto layer_bytes =
      static_cast<std::size_t>(attention->num_blocks_) * kBlockSize *
      static_cast<std::size_t>(model.num_local_kv_heads() * head_dim * SizeOf(kv_dtype));
  for (int i = 0; i < model.config().num_layers; ++i) {
    for (std::vector<DeviceBuffer>* cache : {&attention->k_, &attention->v_}) {
      auto buffer = backend.device().Allocate(layer_bytes);
      if (!buffer.ok()) return buffer.status();
      // NaNs: a read of what was never written cannot go unseen.
      std::memset(buffer->get(), 0xff, layer_bytes);
      cache->push_back(*std::move(buffer));
    }
  }
  for (int block = attention->num_blocks_ - 1; block >= 0; --block) {
    attention->block_table_.push_back(block);
  }
  attention->kernel_ = backend.kernels().Find({.mechanism = AttentionMechanism::kAll,
                                               .phase = AttentionPhase::kPrefill,
                                               .kv_dtype = kv_dtype,
                                               .head_dim = head_dim});
  if (attention->kernel_ == nullptr) return absl::NotFoundError("no attention kernel");
  attention->query_start_ = {0, max_length};
  attention->context_length_ = {0};
  attention->block_table_start_ = {0};
  AttentionBatch largest = attention->shape_;
  largest.query_start = attention->query_start_;
  largest.context_length = attention->context_length_;
  largest.block_tables = attention->block_table_;
  largest.block_table_start = attention->block_table_start_;
  auto workspace = backend.device().Allocate(attention->kernel_->WorkspaceBytes(largest) + 1);
  if (!workspace.ok()) return workspace.status();
  attention->workspace_ = *std::move(workspace);
  return attention;
}

absl::Status SoloAttention::Plan(int context_length, int query_length, Stream& stream) {
  query_start_ = {0, query_length};
  context_length_ = {context_length};
  AttentionBatch batch = shape_;
  batch.query_start = query_start_;
  batch.context_length = context_length_;
  batch.block_tables = block_table_;
  batch.block_table_start = block_table_start_;
  return kernel_->Plan(batch, workspace_, stream, plan_);
}

std::vector<std::int64_t> SoloAttention::SlotMapping() const {
  std::vector<std::int64_t> slots;
  for (int i = 0; i < query_start_[1]; ++i) {
    const int position = context_length_[0] + i;
    const std::int64_t block = block_table_[static_cast<std::size_t>(position / kBlockSize)];
    slots.push_back(block * kBlockSize + position % kBlockSize);
  }
  return slots;
}

KvCacheLayer SoloAttention::CacheOf(int layer_index) {
  const auto i = static_cast<std::size_t>(layer_index);
  const auto view = [&](const DeviceBuffer& buffer) {
    return TensorView::Of(buffer.get(), kv_dtype_, num_blocks_, shape_.num_kv_heads, kBlockSize,
                          shape_.head_dim);
  };
  return {.k = view(k_[i]), .v = view(v_[i])};
}

absl::Status SoloAttention::Run(int layer_index, TensorView q, TensorView out, Stream& stream) {
  const AttentionLayer layer{.q = q, .cache = CacheOf(layer_index), .scale = scale_, .out = out};
  return kernel_->Run(plan_, layer, SelectAll{}, stream);
}

}  // namespace thresher::testing
