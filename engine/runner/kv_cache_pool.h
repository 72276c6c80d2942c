// The bytes of one rank's KV cache. Which block belongs to whom is the scheduler's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/ops/transformer_ops.h"

namespace thresher {

struct KvCacheShape {
  int num_layers = 0;
  int num_blocks = 0;
  int num_kv_heads = 0;  // of this rank
  int block_size = 0;    // tokens
  int head_dim = 0;
  DType dtype = DType::kBF16;  // or kF32
  bool keeps_sums = false;     // of the rows of each block, see KvCacheLayer
};

// Bytes of K and V and, where they are kept, their sums.
std::int64_t CacheBytes(const KvCacheShape& shape);

// More bytes that live and die with a block, e.g. sums of its values.
struct SidecarSpec {
  std::string name;
  std::int64_t bytes = 0;  // for each (layer, block, KV head)
};

// K and V are [layer][block][KV head][slot][head_dim]; a sidecar is [layer][block][KV head][bytes].
// The contents of a block mean nothing until a step has written them. The device outlives the pool.
class KvCachePool final {
 public:
  // InvalidArgument for an impossible shape; ResourceExhausted naming the bytes of the whole pool.
  static absl::StatusOr<std::unique_ptr<KvCachePool>> Create(const KvCacheShape& shape,
                                                             std::span<const SidecarSpec> sidecars,
                                                             Device& device);

  // Makes the cache anew with so many blocks; before the first step alone, since contents and views
  // are lost. Errors as Create; after one the pool is of no more use.
  absl::Status SetNumBlocks(int num_blocks);

  const KvCacheShape& shape() const { return shape_; }
  KvCacheLayer Layer(int layer_index) const;
  // The sidecar of that index for (block 0, KV head 0) of the layer.
  std::byte* Sidecar(int sidecar_index, int layer_index) const;
  std::int64_t num_bytes() const { return num_bytes_; }

 private:
  struct Sidecars {
    std::int64_t bytes_per_layer = 0;
    DeviceBuffer buffer;
  };
  KvCachePool(const KvCacheShape& shape, std::span<const SidecarSpec> sidecars, Device& device);
  absl::Status Allocate();

  KvCacheShape shape_;
  const std::vector<SidecarSpec> specs_;
  Device& device_;
  std::int64_t num_bytes_ = 0;
  DeviceBuffer k_, v_;
  DeviceBuffer k_sums_, v_sums_;  // [layer][block][KV head][head_dim] f32, if kept
  std::vector<Sidecars> sidecars_;
};

}  // namespace thresher
