#include "kernels/cpu/rotate_and_append.h"

#include <algorithm>
#include <cstddef>

namespace thresher {
namespace {

// Writes one row's heads: q out, k and v to the slot; adds the slots of all rows to the sums.
class RowWriter final {
 public:
  RowWriter(const RotateAndAppendArguments& arguments, const RowOps& row_ops)
      : a_(arguments),
        ops_(row_ops),
        head_dim_(arguments.shape.head_dim),
        block_size_(arguments.cache.k.shape[2]),
        head_bytes_(head_dim_ * SizeOf(arguments.cache.k.dtype)) {}

  void WriteRow(std::int64_t row) const {
    const QkvShape& shape = a_.shape;
    const float* heads =
        a_.qkv.as<float>() + row * (shape.num_heads + 2 * shape.num_kv_heads) * head_dim_;
    const float* cos_sin =
        a_.rotary.cos_sin.as<float>() + std::int64_t{a_.positions[row]} * a_.rotary.rotary_dim;
    float* q = a_.q.as<float>() + row * shape.num_heads * head_dim_;
    for (int head = 0; head < shape.num_heads; ++head) {
      Rotate(heads, a_.norm.q_weight.as<float>(), cos_sin, DType::kF32, q);
      heads += head_dim_;
      q += head_dim_;
    }
    if (a_.slot_mapping[row] < 0) return;
    const DType dtype = a_.cache.k.dtype;
    for (int head = 0; head < shape.num_kv_heads; ++head) {
      Rotate(heads, a_.norm.k_weight.as<float>(), cos_sin, dtype, SlotOf(a_.cache.k, row, head));
      heads += head_dim_;
    }
    for (int head = 0; head < shape.num_kv_heads; ++head) {
      ops_.convert(heads, head_dim_, dtype, SlotOf(a_.cache.v, row, head));
      heads += head_dim_;
    }
  }

  // Adds every row's slot of one KV head to the sums of its block, in order of rows. A block's
  // first slot starts its sum anew, whatever an earlier owner of the block has left there.
  void AddToSums(const TensorView& cache, const TensorView& sums, int head) const {
    for (std::size_t row = 0; row < a_.slot_mapping.size(); ++row) {
      const std::int64_t slot = a_.slot_mapping[row];
      if (slot < 0) continue;
      float* sum =
          sums.as<float>() + (slot / block_size_ * a_.shape.num_kv_heads + head) * head_dim_;
      if (slot % block_size_ == 0) std::fill_n(sum, head_dim_, 0.0f);
      ops_.add_to_sum(SlotOf(cache, static_cast<std::int64_t>(row), head), cache.dtype, head_dim_,
                      sum);
    }
  }

 private:
  void Rotate(const float* x, const float* norm_weight, const float* cos_sin, DType dtype,
              void* out) const {
    ops_.rotate_head(x, norm_weight, a_.norm.epsilon, cos_sin, a_.rotary.rotary_dim,
                     static_cast<int>(head_dim_), dtype, out);
  }

  std::byte* SlotOf(const TensorView& cache, std::int64_t row, int head) const {
    const std::int64_t slot = a_.slot_mapping[row];
    const std::int64_t block = slot / block_size_, offset = slot % block_size_;
    return static_cast<std::byte*>(cache.data) +
           ((block * a_.shape.num_kv_heads + head) * block_size_ + offset) * head_bytes_;
  }

  const RotateAndAppendArguments& a_;
  const RowOps& ops_;
  const std::int64_t head_dim_;
  const std::int64_t block_size_;
  const std::int64_t head_bytes_;
};

// After all rows are written. A sum is one thread's, in order of rows, so its bits depend neither
// on threads nor on how the rows were cut into calls.
void AddSums(const RowWriter& writer, const RotateAndAppendArguments& a, ThreadTeam& team) {
  const std::int64_t num_heads = a.shape.num_kv_heads;
  const std::int64_t cost = static_cast<std::int64_t>(a.slot_mapping.size()) * a.shape.head_dim;
  const bool keeps_k = a.cache.k_sums.data != nullptr, keeps_v = a.cache.v_sums.data != nullptr;
  if (!keeps_k && !keeps_v) return;
  team.ParallelRanges(2 * num_heads, cost, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const int head = static_cast<int>(i % num_heads);
      if (i < num_heads && keeps_k) writer.AddToSums(a.cache.k, a.cache.k_sums, head);
      if (i >= num_heads && keeps_v) writer.AddToSums(a.cache.v, a.cache.v_sums, head);
    }
  });
}

}  // namespace

absl::Status CpuRotateAndAppend(const RotateAndAppendArguments& arguments, const RowOps& row_ops,
                                ThreadTeam& team) {
  absl::Status status = CheckRotateAndAppend(arguments, DType::kF32);
  if (!status.ok()) return status;
  const RowWriter writer(arguments, row_ops);
  team.ParallelRanges(arguments.qkv.shape[0], 2 * arguments.qkv.shape[1],
                      [&](std::int64_t begin, std::int64_t end, int) {
                        for (std::int64_t row = begin; row < end; ++row) writer.WriteRow(row);
                      });
  AddSums(writer, arguments, team);
  return status;
}

}  // namespace thresher
