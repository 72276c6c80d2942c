#include "kernels/cuda/attention/all/decode_kernel.cuh"

namespace thresher {

cudaError_t LaunchDecodeBf16Dim64(const AttentionLaunch& arguments, cudaStream_t stream) {
  return LaunchDecode<__nv_bfloat16, 64>(arguments, stream);
}

}  // namespace thresher
