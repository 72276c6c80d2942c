#include "kernels/cuda/gemm/kernel.cuh"

namespace thresher {

cudaError_t LaunchSkinny4x8(const SkinnyLaunch& launch, cudaStream_t stream) {
  return LaunchSkinnyProduct<4, 8>(launch, stream);
}
cudaError_t LaunchSkinny4x16(const SkinnyLaunch& launch, cudaStream_t stream) {
  return LaunchSkinnyProduct<4, 16>(launch, stream);
}

}  // namespace thresher
