#include "kernels/cuda/attention/all/prefill_kernel.cuh"

namespace thresher {

cudaError_t LaunchPrefillF16Dim128(const AttentionLaunch& arguments, const PrefillMaps& maps,
                                   cudaStream_t stream) {
  return LaunchPrefill<__half, 128>(arguments, maps, stream);
}

}  // namespace thresher
