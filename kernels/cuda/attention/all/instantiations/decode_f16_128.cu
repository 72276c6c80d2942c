#include "kernels/cuda/attention/all/decode_kernel.cuh"

namespace thresher {

cudaError_t LaunchDecodeF16Dim128(const AttentionLaunch& arguments, cudaStream_t stream) {
  return LaunchDecode<__half, 128>(arguments, stream);
}

}  // namespace thresher
