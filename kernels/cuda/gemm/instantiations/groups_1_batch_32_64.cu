#include "kernels/cuda/gemm/kernel.cuh"

namespace thresher {

cudaError_t LaunchSkinny1x32(const SkinnyLaunch& launch, cudaStream_t stream) {
  return LaunchSkinnyProduct<1, 32>(launch, stream);
}
cudaError_t LaunchSkinny1x64(const SkinnyLaunch& launch, cudaStream_t stream) {
  return LaunchSkinnyProduct<1, 64>(launch, stream);
}

}  // namespace thresher
