// A CUDA GPU: memory, copies and streams.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace thresher {

// The streams that a CudaDevice makes are of this class, and its ops and kernels take no others.
class CudaStream final : public Stream {
 public:
  explicit CudaStream(cudaStream_t handle) : handle_(handle) {}
  ~CudaStream() override { cudaStreamDestroy(handle_); }
  absl::Status Synchronize() override;
  cudaStream_t handle() const { return handle_; }

 private:
  cudaStream_t handle_;
};

inline cudaStream_t HandleOf(Stream& stream) { return static_cast<CudaStream&>(stream).handle(); }

class CudaDevice final : public Device {
 public:
  CudaDevice(int ordinal, const cudaDeviceProp& properties)
      : ordinal_(ordinal), properties_(properties) {}

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string Description() const override;
  absl::StatusOr<DeviceMemory> Memory() override;
  absl::StatusOr<DeviceBuffer> Allocate(std::size_t bytes) override;
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override;
  absl::StatusOr<std::unique_ptr<DeviceEvent>> CreateEvent() override;
  absl::StatusOr<DeviceBuffer> AllocateHost(std::size_t bytes) override;
  bool captures_work() const override { return true; }
  absl::StatusOr<std::unique_ptr<CapturedWork>> Capture(
      Stream& stream, absl::FunctionRef<absl::Status()> queue) override;
  absl::Status CopyToDevice(const void* from, void* to, std::size_t bytes) override;
  absl::Status CopyToHost(const void* from, void* to, std::size_t bytes) override;

  // The current device is a property of the thread, and ranks are threads.
  absl::Status Bind() const;
  int num_multiprocessors() const { return properties_.multiProcessorCount; }
  int shared_bytes_of_multiprocessor() const {
    return static_cast<int>(properties_.sharedMemPerMultiprocessor);
  }
  const char* name() const { return properties_.name; }

 private:
  absl::Status Copy(const void* from, void* to, std::size_t bytes, cudaMemcpyKind kind);

  int ordinal_;
  cudaDeviceProp properties_;
};

// Errors as CreateCudaBackendFunction.
absl::StatusOr<std::unique_ptr<CudaDevice>> OpenCudaDevice(int ordinal);

}  // namespace thresher
