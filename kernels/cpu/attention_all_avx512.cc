#include "kernels/cpu/attention_decode_body.h"
#include "kernels/cpu/attention_prefill_body.h"
#include "kernels/cpu/attention_unit.h"
#include "kernels/cpu/simd_avx512.h"

namespace thresher {

const AttentionAllLoops& AttentionAllLoopsAvx512() {
  using V = SimdAvx512;
  static constexpr AttentionAllLoops kLoops = {
      .prefill = PrefillUnit<V>, .decode = DecodeUnit<V>, .merge = MergePartials<V>};
  return kLoops;
}

}  // namespace thresher
