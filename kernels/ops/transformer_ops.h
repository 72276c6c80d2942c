// What a decoder layer needs from a device, apart from attention. A twin that lacks one op does not
// compile. What a GEMM reads is in gemm_input_dtype(); what passes from op to op otherwise is f32,
// or where its bytes count in activation_dtype(). The residual and the logits are f32 everywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/device/tensor_view.h"
#include "kernels/ops/packed_weight.h"
#include "kernels/ops/sampling.h"

namespace thresher {

// How the rotary angle of a pair is laid out in a head: (i, i + dim/2), as Hugging Face stores it.
// cos_sin [max_position, rotary_dim] f32: rotary_dim/2 cosines, then rotary_dim/2 sines, already
// multiplied by the attention factor of YaRN and the like. Rows beyond rotary_dim pass unchanged.
struct RotaryTable {
  TensorView cos_sin;
  int rotary_dim = 0;
};

// One layer's cache: k and v [num_blocks, num_kv_heads, block_size, head_dim].
struct KvCacheLayer {
  TensorView k;
  TensorView v;
  // Sums of the rows of each block that hold tokens, as they are stored, in order of slots:
  // [num_blocks, num_kv_heads, head_dim] f32. Null data: nobody keeps them.
  TensorView k_sums = {};
  TensorView v_sums = {};
};

struct QkvShape {
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
};

// Weights of the per-head RMS norm on q and k (Qwen3), each f32 [head_dim]; null data: none.
struct QkNorm {
  TensorView q_weight;
  TensorView k_weight;
  float epsilon = 0;
};

// The host arrays of a step's calls: what Embed, RotateAndAppend and GatherRows will be given.
struct StepArrays {
  std::span<const std::int32_t> ids;
  std::span<const std::int32_t> positions;
  std::span<const std::int64_t> slot_mapping;
  std::span<const std::int32_t> rows;
};

// Stream-ordered. Every call checks dtypes and shapes once (InvalidArgument naming the tensor) and
// allocates nothing; scratch is sized by Reserve. One thread at a time.
class TransformerOps {
 public:
  virtual ~TransformerOps() = default;

  // Element type that MatMul reads: bf16 where the device multiplies it natively, else f32.
  virtual DType gemm_input_dtype() const = 0;

  // Element type that MatMul, SiluMul, AddRmsNorm and RotateAndAppend take for what lies between
  // them, beside f32: bf16 where memory paces those ops, else f32. Sums are f32 all the same.
  virtual DType activation_dtype() const = 0;

  // Sizes scratch for calls with at most `max_rows` rows of input. Called once after packing.
  virtual absl::Status Reserve(std::int64_t max_rows) = 0;

  // Packs the parts, stacked along the output features, into one weight. All parts have equal
  // columns. The sources may be unmapped afterwards.
  virtual absl::StatusOr<std::unique_ptr<PackedWeight>> PackWeight(
      std::span<const WeightSource> parts) = 0;

  // A table of rows to look up. The CPU keeps reading source.bytes, which must outlive the table.
  virtual absl::StatusOr<std::unique_ptr<PackedWeight>> PackEmbedding(
      const WeightSource& source) = 0;

  // Brings the arrays to the device, so that calls with equal ones upload nothing, and captured
  // calls read the new ones. Arrays no longer than Reserve's max_rows. Nothing on the CPU.
  virtual absl::Status Stage(const StepArrays& arrays, Stream& stream) = 0;

  // Keeps room for the draws [0, max_draws) of SamplingRow. Called once, before the first of them.
  virtual absl::Status ReserveDraws(int max_draws) = 0;

  // out[i] = table[ids[i]].   ids [n] i32, each a row of the table or a DrawnToken; out [n, cols]
  // f32
  virtual absl::Status Embed(const PackedWeight& table, std::span<const std::int32_t> ids,
                             TensorView out, Stream& stream) = 0;

  // out = x · weightᵀ + bias.  x [n, cols] gemm_input, bias f32 [rows] or null data, out [n, rows]
  // f32 or activation
  virtual absl::Status MatMul(TensorView x, const PackedWeight& weight, TensorView bias,
                              TensorView out, Stream& stream) = 0;

  // out = x / rms(x) · weight, rms over the row.  x [n, c] f32, weight [c] f32, out [n, c] f32 or
  // gemm_input. `out` may be `x` if the dtypes agree.
  virtual absl::Status RmsNorm(TensorView x, TensorView weight, float epsilon, TensorView out,
                               Stream& stream) = 0;

  // residual += x, then out = RmsNorm(residual).  x [n, c] f32 or activation, residual [n, c] f32
  virtual absl::Status AddRmsNorm(TensorView x, TensorView residual, TensorView weight,
                                  float epsilon, TensorView out, Stream& stream) = 0;

  // Splits qkv, normalises q and k per head if asked, rotates both, writes q out and appends k and
  // v to the cache.
  //   qkv          [n, (num_heads + 2 num_kv_heads) · head_dim] f32 or activation: q heads, k
  //   heads,
  //                v heads
  //   positions    [n], below the rows of the rotary table
  //   slot_mapping [n], slot = block · block_size + offset; −1 skips the append. With sums, the
  //                slots of a block come in order; the sums start anew at a block's first slot.
  //   q            [n, num_heads, head_dim] f32 or activation
  virtual absl::Status RotateAndAppend(TensorView qkv, const QkvShape& shape, const QkNorm& norm,
                                       const RotaryTable& rotary,
                                       std::span<const std::int32_t> positions,
                                       std::span<const std::int64_t> slot_mapping, TensorView q,
                                       const KvCacheLayer& cache, Stream& stream) = 0;

  // out = silu(gate) · up.  gate_up [n, 2 c] f32 or activation: gate then up; out [n, c] gemm_input
  virtual absl::Status SiluMul(TensorView gate_up, TensorView out, Stream& stream) = 0;

  // out[i] = x[rows[i]].  x [n, c] f32, out [r, c] f32
  virtual absl::Status GatherRows(TensorView x, std::span<const std::int32_t> rows, TensorView out,
                                  Stream& stream) = 0;

  // Draws one token for each row; see sampling.h. A row that cannot be drawn is not valid, and
  // fails no other.  logits [rows.size(), vocab] f32, overwritten. `out` is filled when the stream
  // has been waited for: in memory of Device::AllocateHost while the host goes on; with other
  // memory the call may wait.
  virtual absl::Status Sample(TensorView logits, std::span<const SamplingRow> rows,
                              std::span<SampledToken> out, Stream& stream) = 0;

  // Log-probabilities of given next tokens (prompt_logprobs, echo): for each row the target's, its
  // rank, and the top ones; not valid as in Sample, and `out` is filled likewise.
  // logits [targets.size(), vocab] f32, unchanged.
  virtual absl::Status ScoreTokens(TensorView logits, std::span<const std::int32_t> targets,
                                   std::span<const int> num_top, std::span<SampledToken> out,
                                   Stream& stream) = 0;
};

}  // namespace thresher
