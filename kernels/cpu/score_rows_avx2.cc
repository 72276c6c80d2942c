#include "kernels/cpu/score_rows.h"
#include "kernels/cpu/score_rows_body.h"
#include "kernels/cpu/simd_avx2.h"

namespace thresher {

ScoreRowsLoop ScoreRowsAvx2() { return ScoreRowsOf<SimdAvx2>; }

}  // namespace thresher
