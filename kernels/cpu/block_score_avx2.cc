#include "kernels/cpu/block_score_body.h"
#include "kernels/cpu/block_score_loops.h"
#include "kernels/cpu/simd_avx2.h"

namespace thresher {

const BlockScoreLoops& BlockScoreLoopsAvx2() {
  static constexpr BlockScoreLoops kLoops = MakeBlockScoreLoops<SimdAvx2>();
  return kLoops;
}

}  // namespace thresher
