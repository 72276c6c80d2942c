#include "kernels/cuda/cuda_transformer_ops.h"

#include <utility>
#include <vector>

#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/rotate_and_append.h"
#include "kernels/cuda/row_kernels.h"
#include "kernels/ops/op_checks.h"

namespace thresher {

CudaTransformerOps::CudaTransformerOps(bool full_precision, CudaDevice& device, UploadRing& ring,
                                       std::unique_ptr<CudaGemm> gemm)
    : input_dtype_(full_precision ? DType::kF32 : DType::kBF16),
      device_(device),
      gemm_(std::move(gemm)),
      ids_(device, ring),
      rows_(device, ring),
      positions_(device, ring),
      slots_(device, ring),
      sampling_(device, ring) {}

absl::Status CudaTransformerOps::Reserve(std::int64_t max_rows) {
  const auto n = static_cast<std::size_t>(max_rows);
  absl::Status status = ids_.Reserve(n * sizeof(std::int32_t));
  if (status.ok()) status = rows_.Reserve(n * sizeof(std::int32_t));
  if (status.ok()) status = positions_.Reserve(n * sizeof(std::int32_t));
  if (status.ok()) status = slots_.Reserve(n * sizeof(std::int64_t));
  if (status.ok()) status = gemm_->Reserve(max_rows);
  return status;
}

absl::Status CudaTransformerOps::Stage(const StepArrays& arrays, Stream& stream) {
  const cudaStream_t handle = HandleOf(stream);
  absl::Status status = ids_.Of(arrays.ids, handle).status();
  if (status.ok()) status = positions_.Of(arrays.positions, handle).status();
  if (status.ok()) status = slots_.Of(arrays.slot_mapping, handle).status();
  if (status.ok()) status = rows_.Of(arrays.rows, handle).status();
  return status;
}

absl::Status CudaTransformerOps::ReserveDraws(int max_draws) {
  const auto bytes = static_cast<std::size_t>(max_draws) * sizeof(std::int32_t);
  absl::StatusOr<DeviceBuffer> drawn = device_.Allocate(bytes);
  if (!drawn.ok()) return drawn.status();
  const std::vector<std::int32_t> zeros(static_cast<std::size_t>(max_draws));
  drawn_ = *std::move(drawn);
  max_draws_ = max_draws;
  return device_.CopyToDevice(zeros.data(), drawn_.get(), bytes);
}

absl::StatusOr<std::unique_ptr<PackedWeight>> CudaTransformerOps::PackWeight(
    std::span<const WeightSource> parts) {
  absl::StatusOr<std::unique_ptr<CudaWeight>> weight = PackCudaWeight(parts, input_dtype_, device_);
  if (!weight.ok()) return weight.status();
  gemm_->Announce(**weight);
  return std::unique_ptr<PackedWeight>(*std::move(weight));
}

absl::StatusOr<std::unique_ptr<PackedWeight>> CudaTransformerOps::PackEmbedding(
    const WeightSource& source) {
  absl::StatusOr<std::unique_ptr<CudaWeight>> table = PackCudaEmbedding(source, device_);
  if (!table.ok()) return table.status();
  return std::unique_ptr<PackedWeight>(*std::move(table));
}

// The weights that these ops are given are those that these ops made, so the casts hold.
absl::Status CudaTransformerOps::Embed(const PackedWeight& table, std::span<const std::int32_t> ids,
                                       TensorView out, Stream& stream) {
  const auto& weight = static_cast<const CudaWeight&>(table);
  if (weight.use() != CudaWeight::Use::kLookUp) {
    return absl::InvalidArgumentError("embedding table is a weight packed for products");
  }
  absl::Status status = CheckEmbed(weight.rows(), weight.cols(), ids, max_draws_, out);
  if (!status.ok()) return status;
  const absl::StatusOr<const std::int32_t*> rows = ids_.Of(ids, HandleOf(stream));
  if (!rows.ok()) return rows.status();
  return CudaStatus(LaunchGatherRows(weight.memory(), weight.dtype(), *rows,
                                     static_cast<const std::int32_t*>(drawn_.get()), out.shape[0],
                                     out.shape[1], out.as<float>(), HandleOf(stream)),
                    "embedding");
}

absl::Status CudaTransformerOps::MatMul(TensorView x, const PackedWeight& weight, TensorView bias,
                                        TensorView out, Stream& stream) {
  return gemm_->MatMul(x, static_cast<const CudaWeight&>(weight), bias, out, HandleOf(stream));
}

absl::Status CudaTransformerOps::RmsNorm(TensorView x, TensorView weight, float epsilon,
                                         TensorView out, Stream& stream) {
  if (absl::Status status = CheckRmsNorm(x, weight, out); !status.ok()) return status;
  return CudaStatus(LaunchRmsNorm(x, nullptr, weight.as<float>(), epsilon, out, HandleOf(stream)),
                    "rms_norm");
}

absl::Status CudaTransformerOps::AddRmsNorm(TensorView x, TensorView residual, TensorView weight,
                                            float epsilon, TensorView out, Stream& stream) {
  absl::Status status = CheckAddRmsNorm(x, residual, weight, out, activation_dtype());
  if (!status.ok()) return status;
  return CudaStatus(
      LaunchRmsNorm(x, residual.as<float>(), weight.as<float>(), epsilon, out, HandleOf(stream)),
      "add_rms_norm");
}

absl::Status CudaTransformerOps::RotateAndAppend(TensorView qkv, const QkvShape& shape,
                                                 const QkNorm& norm, const RotaryTable& rotary,
                                                 std::span<const std::int32_t> positions,
                                                 std::span<const std::int64_t> slot_mapping,
                                                 TensorView q, const KvCacheLayer& cache,
                                                 Stream& stream) {
  absl::Status status = CheckRotateAndAppend(
      {qkv, shape, norm, rotary, positions, slot_mapping, q, cache}, activation_dtype());
  if (!status.ok()) return status;
  const auto positions_there = positions_.Of(positions, HandleOf(stream));
  if (!positions_there.ok()) return positions_there.status();
  const auto slots_there = slots_.Of(slot_mapping, HandleOf(stream));
  if (!slots_there.ok()) return slots_there.status();
  RotateAndAppendLaunch launch;
  launch.qkv = qkv.data;
  launch.q_weight = norm.q_weight.as<float>();
  launch.k_weight = norm.k_weight.as<float>();
  launch.cos_sin = rotary.cos_sin.as<float>();
  launch.positions = *positions_there;
  launch.slot_mapping = *slots_there;
  launch.q = q.data;
  launch.k_cache = cache.k.data;
  launch.v_cache = cache.v.data;
  launch.k_sums = cache.k_sums.as<float>();
  launch.v_sums = cache.v_sums.as<float>();
  launch.qkv_dtype = qkv.dtype;
  launch.q_dtype = q.dtype;
  launch.kv_dtype = cache.k.dtype;
  launch.epsilon = norm.epsilon;
  launch.num_rows = static_cast<int>(positions.size());
  launch.num_heads = shape.num_heads;
  launch.num_kv_heads = shape.num_kv_heads;
  launch.head_dim = shape.head_dim;
  launch.rotary_dim = rotary.rotary_dim;
  launch.block_size = static_cast<int>(cache.k.shape[2]);
  return CudaStatus(LaunchRotateAndAppend(launch, HandleOf(stream)), "rotate_and_append");
}

absl::Status CudaTransformerOps::SiluMul(TensorView gate_up, TensorView out, Stream& stream) {
  absl::Status status = CheckSiluMul(gate_up, out, activation_dtype());
  if (!status.ok()) return status;
  return CudaStatus(LaunchSiluMul(gate_up, out, HandleOf(stream)), "silu_mul");
}

absl::Status CudaTransformerOps::GatherRows(TensorView x, std::span<const std::int32_t> rows,
                                            TensorView out, Stream& stream) {
  if (absl::Status status = CheckGatherRows(x, rows, out); !status.ok()) return status;
  const absl::StatusOr<const std::int32_t*> there = rows_.Of(rows, HandleOf(stream));
  if (!there.ok()) return there.status();
  return CudaStatus(LaunchGatherRows(x.data, DType::kF32, *there, nullptr, out.shape[0],
                                     out.shape[1], out.as<float>(), HandleOf(stream)),
                    "gather_rows");
}

absl::Status CudaTransformerOps::Sample(TensorView logits, std::span<const SamplingRow> rows,
                                        std::span<SampledToken> out, Stream& stream) {
  if (absl::Status status = CheckSample(logits, rows, max_draws_, out); !status.ok()) {
    return status;
  }
  return sampling_.Sample(logits, rows, static_cast<std::int32_t*>(drawn_.get()), out,
                          HandleOf(stream));
}

absl::Status CudaTransformerOps::ScoreTokens(TensorView logits,
                                             std::span<const std::int32_t> targets,
                                             std::span<const int> num_top,
                                             std::span<SampledToken> out, Stream& stream) {
  absl::Status status = CheckScoreTokens(logits, targets, num_top, out);
  if (!status.ok()) return status;
  return sampling_.Score(logits, targets, num_top, out, HandleOf(stream));
}

}  // namespace thresher
