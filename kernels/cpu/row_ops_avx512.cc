#include "kernels/cpu/logit_row_ops_body.h"
#include "kernels/cpu/row_ops.h"
#include "kernels/cpu/row_ops_body.h"
#include "kernels/cpu/simd_avx512.h"

namespace thresher {

const RowOps& RowOpsAvx512() {
  using V = SimdAvx512;
  static constexpr RowOps kOps = {
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
  return kOps;
}

}  // namespace thresher
