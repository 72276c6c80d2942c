#include "kernels/ops/op_checks.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/device/shape_check.h"

namespace thresher {
namespace {

constexpr const char* kRotate = "rotate_and_append";
constexpr std::int64_t kMaxHeadDim = 256;

absl::Status CheckHeads(const QkvShape& shape) {
  absl::Status status = CheckRange(kRotate, "head_dim", shape.head_dim, 2, kMaxHeadDim);
  if (status.ok()) status = CheckRange(kRotate, "num_kv_heads", shape.num_kv_heads, 1, 1 << 20);
  if (status.ok()) status = CheckRange(kRotate, "num_heads", shape.num_heads, 1, 1 << 20);
  return status;
}

absl::Status CheckRotary(const RotaryTable& rotary, int head_dim) {
  absl::Status status = CheckRange(kRotate, "rotary_dim", rotary.rotary_dim, 0, head_dim);
  if (status.ok()) status = CheckCount(kRotate, "rotary_dim % 2", rotary.rotary_dim % 2, 0);
  if (!status.ok()) return status;
  return CheckTensor(kRotate, "cos_sin", rotary.cos_sin, {DType::kF32},
                     {kAnySize, rotary.rotary_dim});
}

absl::Status CheckQkNorm(const QkNorm& norm, std::int64_t head_dim) {
  if (norm.q_weight.data == nullptr && norm.k_weight.data == nullptr) return absl::OkStatus();
  absl::Status status = CheckTensor(kRotate, "q_weight", norm.q_weight, {DType::kF32}, {head_dim});
  if (!status.ok()) return status;
  return CheckTensor(kRotate, "k_weight", norm.k_weight, {DType::kF32}, {head_dim});
}

absl::Status CheckCache(const KvCacheLayer& cache, const QkvShape& shape) {
  const TensorView& k = cache.k;
  absl::Status status = CheckTensor(kRotate, "cache.k", k, {DType::kBF16, DType::kF16, DType::kF32},
                                    {kAnySize, shape.num_kv_heads, kAnySize, shape.head_dim});
  if (!status.ok()) return status;
  status = CheckTensor(kRotate, "cache.v", cache.v, {k.dtype},
                       {k.shape[0], k.shape[1], k.shape[2], k.shape[3]});
  const auto check_sums = [&](const char* name, const TensorView& sums) {
    if (!status.ok() || sums.data == nullptr) return;
    status = CheckTensor(kRotate, name, sums, {DType::kF32}, {k.shape[0], k.shape[1], k.shape[3]});
  };
  check_sums("cache.k_sums", cache.k_sums);
  check_sums("cache.v_sums", cache.v_sums);
  return status;
}

absl::Status CheckRows(const RotateAndAppendArguments& a, DType activation) {
  const std::int64_t n = static_cast<std::int64_t>(a.positions.size());
  const std::int64_t heads = a.shape.num_heads + 2 * a.shape.num_kv_heads;
  absl::Status status =
      CheckTensor(kRotate, "qkv", a.qkv, {DType::kF32, activation}, {n, heads * a.shape.head_dim});
  if (status.ok()) {
    status = CheckTensor(kRotate, "q", a.q, {DType::kF32, activation},
                         {n, a.shape.num_heads, a.shape.head_dim});
  }
  if (status.ok()) {
    status = CheckCount(kRotate, "slot_mapping.size",
                        static_cast<std::int64_t>(a.slot_mapping.size()), n);
  }
  const std::int64_t num_positions = a.rotary.cos_sin.shape[0];
  const std::int64_t num_slots = a.cache.k.shape[0] * a.cache.k.shape[2];
  for (std::int64_t i = 0; i < n && status.ok(); ++i) {
    status = CheckRange(kRotate, "positions", a.positions[i], 0, num_positions - 1);
    if (status.ok())
      status = CheckRange(kRotate, "slot_mapping", a.slot_mapping[i], -1, num_slots - 1);
  }
  return status;
}

absl::Status CheckNorm(const char* op, const TensorView& x, const TensorView& weight,
                       const TensorView& out, DType activation) {
  absl::Status status = CheckTensor(op, "x", x, {DType::kF32, activation}, {kAnySize, kAnySize});
  if (status.ok()) status = CheckTensor(op, "weight", weight, {DType::kF32}, {x.shape[1]});
  if (status.ok()) {
    status = CheckTensor(op, "out", out, {DType::kF32, DType::kBF16}, {x.shape[0], x.shape[1]});
  }
  return status;
}

}  // namespace

absl::Status CheckRmsNorm(const TensorView& x, const TensorView& weight, const TensorView& out) {
  return CheckNorm("rms_norm", x, weight, out, DType::kF32);
}

absl::Status CheckAddRmsNorm(const TensorView& x, const TensorView& residual,
                             const TensorView& weight, const TensorView& out, DType activation) {
  absl::Status status = CheckNorm("add_rms_norm", x, weight, out, activation);
  if (!status.ok()) return status;
  return CheckTensor("add_rms_norm", "residual", residual, {DType::kF32}, {x.shape[0], x.shape[1]});
}

absl::Status CheckSiluMul(const TensorView& gate_up, const TensorView& out, DType activation) {
  absl::Status status =
      CheckTensor("silu_mul", "out", out, {DType::kF32, DType::kBF16}, {kAnySize, kAnySize});
  if (!status.ok()) return status;
  return CheckTensor("silu_mul", "gate_up", gate_up, {DType::kF32, activation},
                     {out.shape[0], 2 * out.shape[1]});
}

absl::Status CheckGatherRows(const TensorView& x, std::span<const std::int32_t> rows,
                             const TensorView& out) {
  constexpr const char* kOp = "gather_rows";
  absl::Status status = CheckTensor(kOp, "x", x, {DType::kF32}, {kAnySize, kAnySize});
  if (status.ok()) {
    status = CheckTensor(kOp, "out", out, {DType::kF32},
                         {static_cast<std::int64_t>(rows.size()), x.shape[1]});
  }
  for (const std::int32_t row : rows) {
    if (status.ok()) status = CheckRange(kOp, "rows", row, 0, x.shape[0] - 1);
  }
  return status;
}

absl::Status CheckEmbed(std::int64_t num_rows, std::int64_t num_cols,
                        std::span<const std::int32_t> ids, int max_draws, const TensorView& out) {
  const auto count = static_cast<std::int64_t>(ids.size());
  if (out.dtype != DType::kF32 || out.rank != 2 || out.shape[0] != count ||
      out.shape[1] != num_cols) {
    return absl::InvalidArgumentError(
        absl::StrCat("embedding out is ", ToString(out), ", not f32[", count, ", ", num_cols, "]"));
  }
  for (const std::int32_t id : ids) {
    if (id < -max_draws || id >= num_rows) {
      const std::string draws = max_draws > 0 ? absl::StrCat(" and ", max_draws, " draws") : "";
      return absl::InvalidArgumentError(
          absl::StrCat("embedding id ", id, " is not within ", num_rows, " rows", draws));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSample(const TensorView& logits, std::span<const SamplingRow> rows, int max_draws,
                         std::span<const SampledToken> out) {
  const auto num_rows = static_cast<std::int64_t>(rows.size());
  absl::Status status =
      CheckTensor("sample", "logits", logits, {DType::kF32}, {num_rows, kAnySize});
  if (!status.ok()) return status;
  status = CheckCount("sample", "out.size", static_cast<std::int64_t>(out.size()), num_rows);
  for (const SamplingRow& row : rows) {
    if (status.ok()) status = CheckRange("sample", "draw", row.draw, -1, max_draws - 1);
  }
  return status;
}

absl::Status CheckScoreTokens(const TensorView& logits, std::span<const std::int32_t> targets,
                              std::span<const int> num_top, std::span<const SampledToken> out) {
  constexpr const char* kOp = "score_tokens";
  const auto num_rows = static_cast<std::int64_t>(targets.size());
  absl::Status status = CheckTensor(kOp, "logits", logits, {DType::kF32}, {num_rows, kAnySize});
  if (status.ok()) {
    status = CheckCount(kOp, "num_top.size", static_cast<std::int64_t>(num_top.size()), num_rows);
  }
  if (!status.ok()) return status;
  return CheckCount(kOp, "out.size", static_cast<std::int64_t>(out.size()), num_rows);
}

absl::Status CheckRotateAndAppend(const RotateAndAppendArguments& arguments, DType activation) {
  absl::Status status = CheckHeads(arguments.shape);
  if (status.ok()) status = CheckRotary(arguments.rotary, arguments.shape.head_dim);
  if (status.ok()) status = CheckQkNorm(arguments.norm, arguments.shape.head_dim);
  if (status.ok()) status = CheckCache(arguments.cache, arguments.shape);
  if (status.ok()) status = CheckRows(arguments, activation);
  return status;
}

const char* BadScoreField(std::int32_t target, int num_top, std::int64_t vocab) {
  if (target < 0 || target >= vocab) return "targets";
  return num_top < 0 || num_top > kMaxTopLogprobs ? "num_top" : nullptr;
}

}  // namespace thresher
