#include "kernels/cuda/attention/all/decode_kernel.cuh"

namespace thresher {

cudaError_t LaunchDecodeBf16Dim128(const AttentionLaunch& arguments, cudaStream_t stream) {
  return LaunchDecode<__nv_bfloat16, 128>(arguments, stream);
}

}  // namespace thresher
