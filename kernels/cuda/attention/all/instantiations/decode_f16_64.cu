#include "kernels/cuda/attention/all/decode_kernel.cuh"

namespace thresher {

cudaError_t LaunchDecodeF16Dim64(const AttentionLaunch& arguments, cudaStream_t stream) {
  return LaunchDecode<__half, 64>(arguments, stream);
}

}  // namespace thresher
