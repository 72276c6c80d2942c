// The CPU twin of TransformerOps: checks arguments, deals rows to threads, calls RowOps and GEMM.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/cpu/sampling.h"
#include "kernels/ops/transformer_ops.h"

namespace thresher {

class CpuTransformerOps final : public TransformerOps {
 public:
  // `team` outlives the ops.
  CpuTransformerOps(const CpuGemmOptions& options, ThreadTeam& team);

  DType gemm_input_dtype() const override;
  DType activation_dtype() const override { return DType::kF32; }
  absl::Status Reserve(std::int64_t max_rows) override;
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackWeight(
      std::span<const WeightSource> parts) override;
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackEmbedding(const WeightSource& source) override;
  absl::Status Stage(const StepArrays&, Stream&) override { return absl::OkStatus(); }
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
  CpuGemmOptions gemm_options_;
  ThreadTeam& team_;
  const RowOps& row_ops_;
  WeightArena weight_arena_;
  GemmScratch gemm_scratch_;
  std::int64_t max_cols_ = 0;              // widest weight packed so far
  std::int64_t max_vocab_ = 0;             // longest table so far: no row of logits is longer
  std::vector<SamplingScratch> sampling_;  // one a thread
  std::vector<std::int32_t> drawn_;        // [max_draws]
  std::vector<std::int32_t> ids_;          // of a call with drawn tokens
};

}  // namespace thresher
