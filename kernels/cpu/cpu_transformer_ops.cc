#include "kernels/cpu/cpu_transformer_ops.h"

#include <algorithm>
#include <utility>

#include "kernels/cpu/rotate_and_append.h"
#include "kernels/ops/op_checks.h"

namespace thresher {
namespace {

// Byte address of row `row` of a dense [n, c] tensor.
std::byte* RowOf(const TensorView& tensor, std::int64_t row) {
  return static_cast<std::byte*>(tensor.data) + row * tensor.shape[1] * SizeOf(tensor.dtype);
}

}  // namespace

CpuTransformerOps::CpuTransformerOps(const CpuGemmOptions& options, ThreadTeam& team)
    : gemm_options_(options),
      team_(team),
      row_ops_(RowOpsFor(options.isa)),
      gemm_scratch_(options, team.num_threads()),
      sampling_(team.num_threads()) {}

DType CpuTransformerOps::gemm_input_dtype() const { return CpuGemmInputDType(gemm_options_); }

absl::Status CpuTransformerOps::Reserve(std::int64_t max_rows) {
  for (SamplingScratch& scratch : sampling_) scratch.Reserve(max_vocab_);
  ids_.reserve(static_cast<std::size_t>(max_rows));
  return gemm_scratch_.Reserve(max_rows, max_cols_);
}

absl::Status CpuTransformerOps::ReserveDraws(int max_draws) {
  drawn_.assign(static_cast<std::size_t>(max_draws), 0);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PackedWeight>> CpuTransformerOps::PackWeight(
    std::span<const WeightSource> parts) {
  absl::StatusOr<std::unique_ptr<CpuWeight>> weight =
      PackCpuWeight(parts, gemm_options_, weight_arena_, team_);
  if (!weight.ok()) return weight.status();
  max_cols_ = std::max(max_cols_, (*weight)->cols());
  return std::unique_ptr<PackedWeight>(*std::move(weight));
}

absl::StatusOr<std::unique_ptr<PackedWeight>> CpuTransformerOps::PackEmbedding(
    const WeightSource& source) {
  absl::StatusOr<std::unique_ptr<CpuWeight>> table = PackCpuEmbedding(source);
  if (!table.ok()) return table.status();
  max_vocab_ = std::max(max_vocab_, (*table)->rows());
  return std::unique_ptr<PackedWeight>(*std::move(table));
}

// The weights that these ops are given are those that these ops made, so the casts hold.
absl::Status CpuTransformerOps::Embed(const PackedWeight& table, std::span<const std::int32_t> ids,
                                      TensorView out, Stream&) {
  // A draw that there is no room for stays negative, and is refused.
  ids_.assign(ids.begin(), ids.end());
  const auto num_draws = static_cast<std::int64_t>(drawn_.size());
  for (std::int32_t& id : ids_) {
    const std::int64_t draw = -1 - std::int64_t{id};
    if (draw >= 0 && draw < num_draws) id = drawn_[static_cast<std::size_t>(draw)];
  }
  return EmbedRows(static_cast<const CpuWeight&>(table), ids_, out, team_);
}

absl::Status CpuTransformerOps::MatMul(TensorView x, const PackedWeight& weight, TensorView bias,
                                       TensorView out, Stream&) {
  return CpuMatMul(x, static_cast<const CpuWeight&>(weight), bias, out, gemm_scratch_, team_);
}

absl::Status CpuTransformerOps::RmsNorm(TensorView x, TensorView weight, float epsilon,
                                        TensorView out, Stream&) {
  absl::Status status = CheckRmsNorm(x, weight, out);
  if (!status.ok()) return status;
  const std::int64_t c = x.shape[1];
  team_.ParallelRanges(x.shape[0], c, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      row_ops_.rms_norm(x.as<float>() + row * c, weight.as<float>(), epsilon, c, out.dtype,
                        RowOf(out, row));
    }
  });
  return status;
}

absl::Status CpuTransformerOps::AddRmsNorm(TensorView x, TensorView residual, TensorView weight,
                                           float epsilon, TensorView out, Stream&) {
  absl::Status status = CheckAddRmsNorm(x, residual, weight, out, activation_dtype());
  if (!status.ok()) return status;
  const std::int64_t c = x.shape[1];
  team_.ParallelRanges(x.shape[0], 2 * c, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      row_ops_.add_rms_norm(x.as<float>() + row * c, residual.as<float>() + row * c,
                            weight.as<float>(), epsilon, c, out.dtype, RowOf(out, row));
    }
  });
  return status;
}

absl::Status CpuTransformerOps::RotateAndAppend(TensorView qkv, const QkvShape& shape,
                                                const QkNorm& norm, const RotaryTable& rotary,
                                                std::span<const std::int32_t> positions,
                                                std::span<const std::int64_t> slot_mapping,
                                                TensorView q, const KvCacheLayer& cache, Stream&) {
  return CpuRotateAndAppend({qkv, shape, norm, rotary, positions, slot_mapping, q, cache}, row_ops_,
                            team_);
}

absl::Status CpuTransformerOps::SiluMul(TensorView gate_up, TensorView out, Stream&) {
  absl::Status status = CheckSiluMul(gate_up, out, activation_dtype());
  if (!status.ok()) return status;
  const std::int64_t c = out.shape[1];
  // An exponential and a division make an element about four times a plain one.
  team_.ParallelRanges(out.shape[0], 4 * c, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      row_ops_.silu_mul(gate_up.as<float>() + row * 2 * c, c, out.dtype, RowOf(out, row));
    }
  });
  return status;
}

absl::Status CpuTransformerOps::GatherRows(TensorView x, std::span<const std::int32_t> rows,
                                           TensorView out, Stream&) {
  absl::Status status = CheckGatherRows(x, rows, out);
  if (!status.ok()) return status;
  const std::int64_t c = x.shape[1];
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(x.as<float>() + rows[i] * c, c, out.as<float>() + static_cast<std::int64_t>(i) * c);
  }
  return status;
}

absl::Status CpuTransformerOps::Sample(TensorView logits, std::span<const SamplingRow> rows,
                                       std::span<SampledToken> out, Stream&) {
  absl::Status status = CheckSample(logits, rows, static_cast<int>(drawn_.size()), out);
  if (!status.ok()) return status;
  const auto num_rows = static_cast<std::int64_t>(rows.size());
  const std::int64_t vocab = logits.shape[1];
  team_.ParallelFor(num_rows, [&](std::int64_t i, int thread) {
    const char* const bad_field = BadField(rows[i], vocab);
    out[i] =
        bad_field != nullptr
            ? NoToken(bad_field)
            : SampleRow(row_ops_, {logits.as<float>() + i * vocab, static_cast<std::size_t>(vocab)},
                        rows[i], sampling_[thread]);
    if (rows[i].draw >= 0) {
      drawn_[static_cast<std::size_t>(rows[i].draw)] = out[i].valid ? out[i].token : 0;
    }
  });
  return status;
}

absl::Status CpuTransformerOps::ScoreTokens(TensorView logits,
                                            std::span<const std::int32_t> targets,
                                            std::span<const int> num_top,
                                            std::span<SampledToken> out, Stream&) {
  absl::Status status = CheckScoreTokens(logits, targets, num_top, out);
  if (!status.ok()) return status;
  const auto num_rows = static_cast<std::int64_t>(targets.size());
  const std::int64_t vocab = logits.shape[1];
  team_.ParallelFor(num_rows, [&](std::int64_t i, int thread) {
    const char* const bad_field = BadScoreField(targets[i], num_top[i], vocab);
    out[i] =
        bad_field != nullptr
            ? NoToken(bad_field)
            : ScoreRow(row_ops_, {logits.as<float>() + i * vocab, static_cast<std::size_t>(vocab)},
                       targets[i], num_top[i], sampling_[thread]);
  });
  return status;
}

}  // namespace thresher
