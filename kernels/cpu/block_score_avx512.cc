#include "kernels/cpu/block_score_body.h"
#include "kernels/cpu/block_score_loops.h"
#include "kernels/cpu/simd_avx512.h"

namespace thresher {

const BlockScoreLoops& BlockScoreLoopsAvx512() {
  static constexpr BlockScoreLoops kLoops = MakeBlockScoreLoops<SimdAvx512>();
  return kLoops;
}

}  // namespace thresher
