#include "kernels/cuda/gemm/kernel.cuh"

namespace thresher {

cudaError_t LaunchSkinny2x8(const SkinnyLaunch& launch, cudaStream_t stream) {
  return LaunchSkinnyProduct<2, 8>(launch, stream);
}
cudaError_t LaunchSkinny2x16(const SkinnyLaunch& launch, cudaStream_t stream) {
  return LaunchSkinnyProduct<2, 16>(launch, stream);
}

}  // namespace thresher
