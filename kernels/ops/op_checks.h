// The arguments of the ops, checked once at the call for every twin: the same arguments are refused
// with the same words on each device.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kernels/ops/transformer_ops.h"

namespace thresher {

// The arguments of TransformerOps::RotateAndAppend, shapes as there.
struct RotateAndAppendArguments {
  TensorView qkv;
  QkvShape shape;
  QkNorm norm;
  RotaryTable rotary;
  std::span<const std::int32_t> positions;
  std::span<const std::int64_t> slot_mapping;
  TensorView q;
  KvCacheLayer cache;
};

// Each returns InvalidArgument naming the op, the tensor or number, and what was expected.
// `activation` is the twin's activation_dtype().
absl::Status CheckRmsNorm(const TensorView& x, const TensorView& weight, const TensorView& out);
absl::Status CheckAddRmsNorm(const TensorView& x, const TensorView& residual,
                             const TensorView& weight, const TensorView& out, DType activation);
absl::Status CheckSiluMul(const TensorView& gate_up, const TensorView& out, DType activation);
absl::Status CheckGatherRows(const TensorView& x, std::span<const std::int32_t> rows,
                             const TensorView& out);
// `max_draws`: of TransformerOps::ReserveDraws; 0: every id must be a row.
absl::Status CheckEmbed(std::int64_t num_rows, std::int64_t num_cols,
                        std::span<const std::int32_t> ids, int max_draws, const TensorView& out);
absl::Status CheckSample(const TensorView& logits, std::span<const SamplingRow> rows, int max_draws,
                         std::span<const SampledToken> out);
absl::Status CheckScoreTokens(const TensorView& logits, std::span<const std::int32_t> targets,
                              std::span<const int> num_top, std::span<const SampledToken> out);
// A position outside the rotary table or a slot outside the cache is refused. Two rows must not
// have the same slot, which is not checked.
absl::Status CheckRotateAndAppend(const RotateAndAppendArguments& arguments, DType activation);

// The field of the row of ScoreTokens that is out of range, or null.
const char* BadScoreField(std::int32_t target, int num_top, std::int64_t vocab);

}  // namespace thresher
