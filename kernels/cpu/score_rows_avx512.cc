#include "kernels/cpu/score_rows.h"
#include "kernels/cpu/score_rows_body.h"
#include "kernels/cpu/simd_avx512.h"

namespace thresher {

ScoreRowsLoop ScoreRowsAvx512() { return ScoreRowsOf<SimdAvx512>; }

}  // namespace thresher
