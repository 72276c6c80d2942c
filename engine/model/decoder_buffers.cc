#include "engine/model/decoder_buffers.h"

#include <utility>
#include <vector>

#include "engine/model/rotary_frequencies.h"

namespace thresher {
namespace {

// The first failure is kept; views made after it have null data.
class Allocator final {
 public:
  Allocator(Device& device, DecoderBuffers& buffers) : device_(device), buffers_(buffers) {}

  void Make(TensorView shape, TensorView& out) {
    if (!status_.ok()) return;
    absl::StatusOr<DeviceBuffer> memory =
        device_.Allocate(static_cast<std::size_t>(shape.num_bytes()));
    if (!memory.ok()) {
      status_ = memory.status();
      return;
    }
    out = shape;
    out.data = memory->get();
    buffers_.memory.push_back(*std::move(memory));
  }
  const absl::Status& status() const { return status_; }

 private:
  Device& device_;
  DecoderBuffers& buffers_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<DecoderBuffers> AllocateDecoderBuffers(const ModelConfig& config,
                                                      const ModelShard& shard,
                                                      const CausalLmOptions& options,
                                                      Backend& backend) {
  const DType gemm = backend.ops().gemm_input_dtype();
  const DType between = backend.ops().activation_dtype();
  const std::int64_t n = options.max_tokens, rows = options.max_logit_rows;
  const std::int64_t hidden = config.hidden_size, head_dim = config.head_dim;
  const std::int64_t heads = shard.heads.count, inner = shard.intermediate.count;
  DecoderBuffers buffers;
  Allocator allocator(backend.device(), buffers);
  const auto make = [&](TensorView& out, DType dtype, auto... shape) {
    allocator.Make(TensorView::Of(nullptr, dtype, shape...), out);
  };
  make(buffers.hidden, DType::kF32, n, hidden);
  make(buffers.normed, gemm, n, hidden);
  make(buffers.qkv, between, n, (heads + 2 * shard.kv_heads.count) * head_dim);
  make(buffers.q, between, n, heads, head_dim);
  make(buffers.attention, gemm, n, heads, head_dim);
  make(buffers.branch, shard.size == 1 ? between : DType::kF32, n, hidden);
  make(buffers.gate_up, between, n, 2 * inner);
  make(buffers.activation, gemm, n, inner);
  make(buffers.rows, DType::kF32, rows, hidden);
  make(buffers.rows_normed, gemm, rows, hidden);
  const std::int64_t padded_vocab = shard.vocab.count * shard.size;
  if (shard.size > 1) make(buffers.local_logits, DType::kF32, rows, shard.vocab.count);
  if (padded_vocab != config.vocab_size) {
    make(buffers.padded_logits, DType::kF32, rows, padded_vocab);
  }
  const std::int64_t positions = options.max_position, rotary_dim = config.rope.rotary_dim;
  make(buffers.cos_sin, DType::kF32, positions, rotary_dim);
  if (!allocator.status().ok()) return allocator.status();
  std::vector<float> cos_sin(static_cast<std::size_t>(buffers.cos_sin.num_elements()));
  FillRotaryTable(ComputeRotaryFrequencies(config.rope, options.max_position), options.max_position,
                  cos_sin);
  absl::Status status = backend.device().CopyToDevice(
      cos_sin.data(), buffers.cos_sin.data, static_cast<std::size_t>(buffers.cos_sin.num_bytes()));
  if (!status.ok()) return status;
  return buffers;
}

}  // namespace thresher
