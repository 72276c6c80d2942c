// Which loop serves which row op, for the vector type of the including file.
#pragma once

#if defined(__AVX2__)

#include "kernels/cpu/logit_row_ops_body.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/cpu/row_ops_body.h"

namespace thresher {
// Unnamed on purpose, see simd_avx2.h.
namespace {

template <typename V>
constexpr RowOps MakeRowOps() {
  return {
      .rms_norm = RmsNormRow<V>,
      .add_rms_norm = AddRmsNormRow<V>,
      .silu_mul = SiluMulRow<V>,
      .rotate_head = RotateHead<V>,
      .convert = ConvertRow<V>,
      .add_to_sum = AddToSum<V>,
      .row_maximum = MaximumOfRow<V>,
      .block_maxima = BlockMaxima<V>,
      .exp_weights = ExpWeights<V>,
      .sum_exp = SumExp<V>,
      .count_greater = CountGreater<V>,
  };
}

}  // namespace
}  // namespace thresher

#endif
