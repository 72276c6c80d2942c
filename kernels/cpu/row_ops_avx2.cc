#include "kernels/cpu/row_ops_table.h"
#include "kernels/cpu/simd_avx2.h"

namespace thresher {

const RowOps& RowOpsAvx2() {
  static constexpr RowOps kOps = MakeRowOps<SimdAvx2>();
  return kOps;
}

}  // namespace thresher
