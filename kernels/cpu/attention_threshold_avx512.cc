#include "kernels/cpu/attention_threshold_body.h"
#include "kernels/cpu/attention_threshold_merge_body.h"
#include "kernels/cpu/attention_threshold_unit.h"
#include "kernels/cpu/simd_avx512.h"

namespace thresher {

const AttentionThresholdLoops& AttentionThresholdLoopsAvx512() {
  using V = SimdAvx512;
  static constexpr AttentionThresholdLoops kLoops = {.score = ScoreThreshold<V>,
                                                     .add_log_sum = AddLogSum<V>,
                                                     .attend = AttendThreshold<V>,
                                                     .merge = MergeThreshold<V>,
                                                     .sum_keys = SumKeys<V>,
                                                     .add_mean_score = AddMeanScore<V>};
  return kLoops;
}

}  // namespace thresher
