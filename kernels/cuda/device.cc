// A CUDA GPU: memory and streams.
#include "kernels/device/device.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/plugin.h"

namespace thresher {
namespace {

class CudaStream final : public Stream {
 public:
  explicit CudaStream(cudaStream_t stream) : stream_(stream) {}
  ~CudaStream() override { cudaStreamDestroy(stream_); }
  absl::Status Synchronize() override {
    return CudaStatus(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

 private:
  cudaStream_t stream_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(int ordinal, const cudaDeviceProp& properties)
      : ordinal_(ordinal), properties_(properties) {}

  DeviceKind kind() const override { return DeviceKind::kCuda; }

  std::string Description() const override {
    return absl::StrCat("cuda ", ordinal_, ", ", properties_.name, ", sm_", properties_.major,
                        properties_.minor, ", ", properties_.totalGlobalMem >> 20, " MiB, ",
                        properties_.multiProcessorCount, " multiprocessors");
  }

  // cudaMalloc aligns to 256 bytes at least.
  absl::StatusOr<DeviceBuffer> Allocate(std::size_t bytes) override {
    if (absl::Status status = Bind(); !status.ok()) return status;
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, bytes);
    if (error != cudaSuccess) {
      cudaGetLastError();  // A refused allocation must not fail the next launch.
      return CudaStatus(error, absl::StrCat("allocating ", bytes, " bytes on ", Description()));
    }
    return DeviceBuffer(memory, bytes, [](void* pointer, std::size_t) { cudaFree(pointer); });
  }

  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override {
    if (absl::Status status = Bind(); !status.ok()) return status;
    cudaStream_t stream = nullptr;
    const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (error != cudaSuccess) return CudaStatus(error, "cudaStreamCreateWithFlags");
    return std::make_unique<CudaStream>(stream);
  }

 private:
  // The current device is a property of the thread, and ranks are threads.
  absl::Status Bind() const { return CudaStatus(cudaSetDevice(ordinal_), "cudaSetDevice"); }

  int ordinal_;
  cudaDeviceProp properties_;
};

absl::StatusOr<std::unique_ptr<Device>> OpenCudaDevice(int ordinal) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    if (error != cudaErrorNoDevice) {
      return absl::FailedPreconditionError(
          absl::StrCat("no usable CUDA driver: ", cudaGetErrorString(error)));
    }
    count = 0;
  }
  if (ordinal < 0 || ordinal >= count) {
    return absl::NotFoundError(
        absl::StrCat("there is no GPU ", ordinal, "; this machine has ", count));
  }
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, ordinal);
  if (error != cudaSuccess) return CudaStatus(error, "cudaGetDeviceProperties");
  return std::make_unique<CudaDevice>(ordinal, properties);
}

}  // namespace
}  // namespace thresher

extern "C" __attribute__((visibility("default"))) void thresher_open_cuda_device(
    int ordinal, absl::StatusOr<std::unique_ptr<thresher::Device>>* device) {
  *device = thresher::OpenCudaDevice(ordinal);
}
