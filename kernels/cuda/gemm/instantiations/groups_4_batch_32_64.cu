#include "kernels/cuda/gemm/kernel.cuh"

namespace thresher {

cudaError_t LaunchSkinny4x32(const SkinnyLaunch& launch, cudaStream_t stream) {
  return LaunchSkinnyProduct<4, 32>(launch, stream);
}
cudaError_t LaunchSkinny4x64(const SkinnyLaunch& launch, cudaStream_t stream) {
  return LaunchSkinnyProduct<4, 64>(launch, stream);
}

}  // namespace thresher
