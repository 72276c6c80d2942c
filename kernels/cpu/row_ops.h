// The inner loops of the CPU ops, one row a call, in a version for each instruction set.
#pragma once

#include <cstdint>

#include "kernels/device/cpu_isa.h"
#include "kernels/device/dtype.h"

namespace thresher {

// What one pass over a row of logits finds.
struct RowMaximum {
  float value = 0;         // the largest; −infinity if there is none
  std::int64_t index = 0;  // its lowest index
  bool valid = false;      // no NaN, no +infinity, and at least one finite element
};

// Function pointers, so that the choice of instruction set is made once, when the backend is made.
// `out_dtype` is f32 or bf16, for caches also f16. Pure functions of their arguments.
struct RowOps {
  // out = x · weight / sqrt(mean(x²) + epsilon).  All [c]; out may be x if f32.
  void (*rms_norm)(const float* x, const float* weight, float epsilon, std::int64_t c,
                   DType out_dtype, void* out);
  // residual += x, then out = rms_norm(residual).
  void (*add_rms_norm)(const float* x, float* residual, const float* weight, float epsilon,
                       std::int64_t c, DType out_dtype, void* out);
  // out [c] = silu(gate_up[0 … c)) · gate_up[c … 2c)
  void (*silu_mul)(const float* gate_up, std::int64_t c, DType out_dtype, void* out);
  // One head: RMS norm if norm_weight is not null, then rotation of the first rotary_dim elements
  // by cos_sin (rotary_dim/2 cosines, then sines), then conversion. head_dim at most 256.
  void (*rotate_head)(const float* x, const float* norm_weight, float epsilon, const float* cos_sin,
                      int rotary_dim, int head_dim, DType out_dtype, void* out);
  void (*convert)(const float* x, std::int64_t c, DType out_dtype, void* out);
  // sum [c] += x [c] of `dtype` (f32, bf16 or f16), widened to f32.
  void (*add_to_sum)(const void* x, DType dtype, std::int64_t c, float* sum);

  RowMaximum (*row_maximum)(const float* x, std::int64_t c);
  // block_max[b] = largest of x[64 b … 64 b + 64), the last block shorter.
  void (*block_maxima)(const float* x, std::int64_t c, float* block_max);
  // weight[i] = exp((x[i] − maximum) / temperature), and block_sum[b] = the sum of 64 of them.
  void (*exp_weights)(const float* x, std::int64_t c, float maximum, float temperature,
                      float* weight, float* block_sum);
  // Sum of exp(x[i] − maximum); f32 inside a block of 64, double across blocks.
  double (*sum_exp)(const float* x, std::int64_t c, float maximum);
  // How many elements are larger than `value`.
  std::int64_t (*count_greater)(const float* x, std::int64_t c, float value);
};

inline constexpr int kLogitBlock = 64;

// Tables with static lifetime. Only call into one that the machine supports.
const RowOps& RowOpsAvx2();
const RowOps& RowOpsAvx512();
inline const RowOps& RowOpsFor(CpuIsa isa) {
  return isa == CpuIsa::kAvx2 ? RowOpsAvx2() : RowOpsAvx512();
}

}  // namespace thresher
