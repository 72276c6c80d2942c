#include "kernels/cuda/attention/all/prefill_kernel.cuh"

namespace thresher {

cudaError_t LaunchPrefillBf16Dim64(const AttentionLaunch& arguments, const PrefillMaps& maps,
                                   cudaStream_t stream) {
  return LaunchPrefill<__nv_bfloat16, 64>(arguments, maps, stream);
}

}  // namespace thresher
