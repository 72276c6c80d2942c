#include "engine/runner/kv_cache_pool.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

std::int64_t LayerBytes(const KvCacheShape& shape) {
  return static_cast<std::int64_t>(shape.num_blocks) * shape.num_kv_heads * shape.block_size *
         shape.head_dim * SizeOf(shape.dtype);
}

// Numbers of a layer's sums of K, or of V.
std::int64_t LayerSums(const KvCacheShape& shape) {
  return static_cast<std::int64_t>(shape.num_blocks) * shape.num_kv_heads * shape.head_dim;
}

}  // namespace

std::int64_t CacheBytes(const KvCacheShape& shape) {
  const std::int64_t sums =
      shape.keeps_sums ? LayerSums(shape) * static_cast<std::int64_t>(sizeof(float)) : 0;
  return 2 * shape.num_layers * (LayerBytes(shape) + sums);
}

KvCachePool::KvCachePool(const KvCacheShape& shape, std::span<const SidecarSpec> sidecars,
                         Device& device)
    : shape_(shape), specs_(sidecars.begin(), sidecars.end()), device_(device) {}

absl::StatusOr<std::unique_ptr<KvCachePool>> KvCachePool::Create(
    const KvCacheShape& shape, std::span<const SidecarSpec> sidecars, Device& device) {
  if (shape.num_layers < 1 || shape.num_blocks < 1 || shape.num_kv_heads < 1 ||
      shape.block_size < 1 || shape.head_dim < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a KV cache needs at least one of each: ", shape.num_layers, " layers, ",
                     shape.num_blocks, " blocks, ", shape.num_kv_heads, " KV heads, ",
                     shape.block_size, " slots, head size ", shape.head_dim));
  }
  if (shape.dtype != DType::kBF16 && shape.dtype != DType::kF32) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the KV cache dtype is ", std::string(Name(shape.dtype)), "; it must be bf16 or f32"));
  }
  std::unique_ptr<KvCachePool> pool(new KvCachePool(shape, sidecars, device));
  if (absl::Status status = pool->Allocate(); !status.ok()) return status;
  return pool;
}

absl::Status KvCachePool::SetNumBlocks(int num_blocks) {
  for (DeviceBuffer* buffer : {&k_, &v_, &k_sums_, &v_sums_}) *buffer = DeviceBuffer();
  sidecars_.clear();
  if (num_blocks < 1) {
    return absl::InvalidArgumentError(absl::StrCat("a KV cache of ", num_blocks, " blocks"));
  }
  shape_.num_blocks = num_blocks;
  return Allocate();
}

absl::Status KvCachePool::Allocate() {
  num_bytes_ = CacheBytes(shape_);
  for (const SidecarSpec& spec : specs_) {
    num_bytes_ += static_cast<std::int64_t>(shape_.num_layers) * shape_.num_blocks *
                  shape_.num_kv_heads * spec.bytes;
  }
  const auto allocate = [&](std::int64_t bytes, DeviceBuffer& buffer) {
    absl::StatusOr<DeviceBuffer> memory = device_.Allocate(static_cast<std::size_t>(bytes));
    if (memory.ok()) {
      buffer = *std::move(memory);
      return absl::OkStatus();
    }
    return absl::Status(memory.status().code(),
                        absl::StrCat("no memory for a KV cache of ", num_bytes_, " bytes (",
                                     shape_.num_blocks, " blocks of ", shape_.block_size,
                                     " tokens): ", std::string(memory.status().message())));
  };
  const std::int64_t matrix_bytes = shape_.num_layers * LayerBytes(shape_);
  if (absl::Status status = allocate(matrix_bytes, k_); !status.ok()) return status;
  if (absl::Status status = allocate(matrix_bytes, v_); !status.ok()) return status;
  if (shape_.keeps_sums) {
    const std::int64_t sums_bytes =
        shape_.num_layers * LayerSums(shape_) * static_cast<std::int64_t>(sizeof(float));
    for (DeviceBuffer* sums : {&k_sums_, &v_sums_}) {
      if (absl::Status status = allocate(sums_bytes, *sums); !status.ok()) return status;
    }
  }
  for (const SidecarSpec& spec : specs_) {
    Sidecars& added = sidecars_.emplace_back();
    added.bytes_per_layer =
        static_cast<std::int64_t>(shape_.num_blocks) * shape_.num_kv_heads * spec.bytes;
    const std::int64_t bytes = shape_.num_layers * added.bytes_per_layer;
    if (absl::Status status = allocate(bytes, added.buffer); !status.ok()) return status;
  }
  return absl::OkStatus();
}

KvCacheLayer KvCachePool::Layer(int layer_index) const {
  const std::int64_t offset = layer_index * LayerBytes(shape_);
  const auto view = [&](const DeviceBuffer& buffer) {
    return TensorView::Of(buffer.bytes_at(offset), shape_.dtype, shape_.num_blocks,
                          shape_.num_kv_heads, shape_.block_size, shape_.head_dim);
  };
  KvCacheLayer layer{.k = view(k_), .v = view(v_)};
  if (shape_.keeps_sums) {
    const auto sums = [&](const DeviceBuffer& buffer) {
      return TensorView::Of(buffer.bytes_at(layer_index * LayerSums(shape_) *
                                            static_cast<std::int64_t>(sizeof(float))),
                            DType::kF32, shape_.num_blocks, shape_.num_kv_heads, shape_.head_dim);
    };
    layer.k_sums = sums(k_sums_);
    layer.v_sums = sums(v_sums_);
  }
  return layer;
}

std::byte* KvCachePool::Sidecar(int sidecar_index, int layer_index) const {
  const Sidecars& sidecar = sidecars_[static_cast<std::size_t>(sidecar_index)];
  return sidecar.buffer.bytes_at(layer_index * sidecar.bytes_per_layer);
}

}  // namespace thresher
