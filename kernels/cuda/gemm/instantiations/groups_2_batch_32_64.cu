#include "kernels/cuda/gemm/kernel.cuh"

namespace thresher {

cudaError_t LaunchSkinny2x32(const SkinnyLaunch& launch, cudaStream_t stream) {
  return LaunchSkinnyProduct<2, 32>(launch, stream);
}
cudaError_t LaunchSkinny2x64(const SkinnyLaunch& launch, cudaStream_t stream) {
  return LaunchSkinnyProduct<2, 64>(launch, stream);
}

}  // namespace thresher
