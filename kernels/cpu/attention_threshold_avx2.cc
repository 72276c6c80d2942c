#include "kernels/cpu/attention_threshold_body.h"
#include "kernels/cpu/attention_threshold_merge_body.h"
#include "kernels/cpu/attention_threshold_unit.h"
#include "kernels/cpu/simd_avx2.h"

namespace thresher {

const AttentionThresholdLoops& AttentionThresholdLoopsAvx2() {
  using V = SimdAvx2;
  static constexpr AttentionThresholdLoops kLoops = {.score = ScoreThreshold<V>,
                                                     .add_log_sum = AddLogSum<V>,
                                                     .attend = AttendThreshold<V>,
                                                     .merge = MergeThreshold<V>,
                                                     .sum_keys = SumKeys<V>,
                                                     .add_mean_score = AddMeanScore<V>};
  return kLoops;
}

}  // namespace thresher
