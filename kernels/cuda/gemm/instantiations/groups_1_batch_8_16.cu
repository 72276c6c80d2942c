#include "kernels/cuda/gemm/kernel.cuh"

namespace thresher {

cudaError_t LaunchSkinny1x8(const SkinnyLaunch& launch, cudaStream_t stream) {
  return LaunchSkinnyProduct<1, 8>(launch, stream);
}
cudaError_t LaunchSkinny1x16(const SkinnyLaunch& launch, cudaStream_t stream) {
  return LaunchSkinnyProduct<1, 16>(launch, stream);
}

}  // namespace thresher
