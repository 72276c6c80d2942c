#include "kernels/cuda/gemm/product.h"

#include <bit>

namespace thresher {

int GemmBucketOf(std::int64_t n) {
  if (n <= 4) return static_cast<int>(n) - 1;
  const int log = std::bit_width(static_cast<std::uint64_t>(n - 1)) - 3;  // n − 1 in [4, 8) << log
  const std::int64_t quarter = (n - 1) >> log;                            // 4 to 7
  return 4 * log + static_cast<int>(quarter);
}

std::int64_t RowsOfGemmBucket(int bucket) {
  if (bucket < 4) return bucket + 1;
  return (std::int64_t{bucket % 4} + 5) << (bucket / 4 - 1);
}

}  // namespace thresher
