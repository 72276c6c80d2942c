// The CUDA twin of TransformerOps.
#pragma once

#include <memory>
#include <span>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_gemm.h"
#include "kernels/cuda/cuda_sampling.h"
#include "kernels/cuda/upload_ring.h"
#include "kernels/ops/transformer_ops.h"

namespace thresher {

// Calls go to one stream at a time: who changes streams synchronises the old one first. `device`
// and `ring` outlive the ops.
class CudaTransformerOps final : public TransformerOps {
 public:
  // full_precision: weights and inputs of products in f32, without TF32.
  CudaTransformerOps(bool full_precision, CudaDevice& device, UploadRing& ring,
                     std::unique_ptr<CudaGemm> gemm);

  DType gemm_input_dtype() const override { return input_dtype_; }
  DType activation_dtype() const override { return input_dtype_; }
  absl::Status Reserve(std::int64_t max_rows) override;
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackWeight(
      std::span<const WeightSource> parts) override;
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackEmbedding(const WeightSource& source) override;
  absl::Status Stage(const StepArrays& arrays, Stream& stream) override;
  absl::Status ReserveDraws(int max_draws) override;
  absl::Status Embed(const PackedWeight& table, std::span<const std::int32_t> ids, TensorView out,
                     Stream& stream) override;
  absl::Status MatMul(TensorView x, const PackedWeight& weight, TensorView bias, TensorView out,
                      Stream& stream) override;
  absl::Status RmsNorm(TensorView x, TensorView weight, float epsilon, TensorView out,
                       Stream& stream) override;
  absl::Status AddRmsNorm(TensorView x, TensorView residual, TensorView weight, float epsilon,
                          TensorView out, Stream& stream) override;
  absl::Status RotateAndAppend(TensorView qkv, const QkvShape& shape, const QkNorm& norm,
                               const RotaryTable& rotary, std::span<const std::int32_t> positions,
                               std::span<const std::int64_t> slot_mapping, TensorView q,
                               const KvCacheLayer& cache, Stream& stream) override;
  absl::Status SiluMul(TensorView gate_up, TensorView out, Stream& stream) override;
  absl::Status GatherRows(TensorView x, std::span<const std::int32_t> rows, TensorView out,
                          Stream& stream) override;
  absl::Status Sample(TensorView logits, std::span<const SamplingRow> rows,
                      std::span<SampledToken> out, Stream& stream) override;
  absl::Status ScoreTokens(TensorView logits, std::span<const std::int32_t> targets,
                           std::span<const int> num_top, std::span<SampledToken> out,
                           Stream& stream) override;

 private:
  const DType input_dtype_;
  CudaDevice& device_;
  std::unique_ptr<CudaGemm> gemm_;
  UploadedArray ids_, rows_, positions_, slots_;
  CudaSampling sampling_;
  DeviceBuffer drawn_;  // [max_draws] i32
  int max_draws_ = 0;
};

}  // namespace thresher
