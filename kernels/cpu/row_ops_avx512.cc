#include "kernels/cpu/row_ops_table.h"
#include "kernels/cpu/simd_avx512.h"

namespace thresher {

const RowOps& RowOpsAvx512() {
  static constexpr RowOps kOps = MakeRowOps<SimdAvx512>();
  return kOps;
}

}  // namespace thresher
