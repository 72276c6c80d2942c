#include "kernels/cuda/cuda_device.h"

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"

namespace thresher {

absl::Status CudaStream::Synchronize() {
  return CudaStatus(cudaStreamSynchronize(handle_), "cudaStreamSynchronize");
}

std::string CudaDevice::Description() const {
  return absl::StrCat("cuda ", ordinal_, ", ", properties_.name, ", sm_", properties_.major,
                      properties_.minor, ", ", properties_.totalGlobalMem >> 20, " MiB, ",
                      properties_.multiProcessorCount, " multiprocessors");
}

absl::StatusOr<DeviceMemory> CudaDevice::Memory() {
  if (absl::Status status = Bind(); !status.ok()) return status;
  std::size_t free_bytes = 0, total_bytes = 0;
  const cudaError_t error = cudaMemGetInfo(&free_bytes, &total_bytes);
  if (error != cudaSuccess) return CudaStatus(error, "cudaMemGetInfo");
  return DeviceMemory{.total_bytes = static_cast<std::int64_t>(total_bytes),
                      .free_bytes = static_cast<std::int64_t>(free_bytes)};
}

namespace {

class CudaEvent final : public DeviceEvent {
 public:
  explicit CudaEvent(cudaEvent_t handle) : handle_(handle) {}
  ~CudaEvent() override { cudaEventDestroy(handle_); }
  absl::Status Record(Stream& stream) override {
    return CudaStatus(cudaEventRecord(handle_, HandleOf(stream)), "cudaEventRecord");
  }
  absl::Status Wait() override {
    return CudaStatus(cudaEventSynchronize(handle_), "cudaEventSynchronize");
  }

 private:
  cudaEvent_t handle_;
};

class CudaGraph final : public CapturedWork {
 public:
  explicit CudaGraph(cudaGraphExec_t handle) : handle_(handle) {}
  ~CudaGraph() override { cudaGraphExecDestroy(handle_); }
  absl::Status Launch(Stream& stream) override {
    return CudaStatus(cudaGraphLaunch(handle_, HandleOf(stream)), "cudaGraphLaunch");
  }

 private:
  cudaGraphExec_t handle_;
};

}  // namespace

// cudaMalloc aligns to 256 bytes at least. No bytes still make a buffer, so that a view of it has
// an address.
absl::StatusOr<DeviceBuffer> CudaDevice::Allocate(std::size_t bytes) {
  if (absl::Status status = Bind(); !status.ok()) return status;
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes == 0 ? 1 : bytes);
  if (error != cudaSuccess) {
    cudaGetLastError();  // A refused allocation must not fail the next launch.
    return CudaStatus(error, absl::StrCat("allocating ", bytes, " bytes on ", Description()));
  }
  return DeviceBuffer(memory, bytes, [](void* pointer, std::size_t) { cudaFree(pointer); });
}

absl::StatusOr<std::unique_ptr<Stream>> CudaDevice::CreateStream() {
  if (absl::Status status = Bind(); !status.ok()) return status;
  cudaStream_t stream = nullptr;
  const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return CudaStatus(error, "cudaStreamCreateWithFlags");
  return std::make_unique<CudaStream>(stream);
}

// The thread sleeps while it waits: spinning would take a core from those that plan and publish.
absl::StatusOr<std::unique_ptr<DeviceEvent>> CudaDevice::CreateEvent() {
  if (absl::Status status = Bind(); !status.ok()) return status;
  cudaEvent_t event = nullptr;
  const cudaError_t error =
      cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync);
  if (error != cudaSuccess) return CudaStatus(error, "cudaEventCreateWithFlags");
  return std::make_unique<CudaEvent>(event);
}

absl::StatusOr<DeviceBuffer> CudaDevice::AllocateHost(std::size_t bytes) {
  if (absl::Status status = Bind(); !status.ok()) return status;
  void* memory = nullptr;
  const cudaError_t error = cudaMallocHost(&memory, bytes == 0 ? 1 : bytes);
  if (error != cudaSuccess) {
    cudaGetLastError();
    return CudaStatus(error, absl::StrCat("allocating ", bytes, " bytes of page-locked memory"));
  }
  return DeviceBuffer(memory, bytes, [](void* pointer, std::size_t) { cudaFreeHost(pointer); });
}

absl::StatusOr<std::unique_ptr<CapturedWork>> CudaDevice::Capture(
    Stream& stream, absl::FunctionRef<absl::Status()> queue) {
  const cudaStream_t handle = HandleOf(stream);
  // Other threads may go on to use the device in any way.
  cudaError_t error = cudaStreamBeginCapture(handle, cudaStreamCaptureModeThreadLocal);
  if (error != cudaSuccess) return CudaStatus(error, "cudaStreamBeginCapture");
  const absl::Status queued = queue();
  cudaGraph_t graph = nullptr;
  error = cudaStreamEndCapture(handle, &graph);
  cudaGraphExec_t executable = nullptr;
  if (queued.ok() && error == cudaSuccess) {
    error = cudaGraphInstantiate(&executable, graph, 0);
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (!queued.ok()) {
    cudaGetLastError();  // What broke off a capture must not fail the next launch.
    return queued;
  }
  if (error != cudaSuccess) return CudaStatus(error, "capturing a graph");
  return std::make_unique<CudaGraph>(executable);
}

absl::Status CudaDevice::CopyToDevice(const void* from, void* to, std::size_t bytes) {
  return Copy(from, to, bytes, cudaMemcpyHostToDevice);
}

absl::Status CudaDevice::CopyToHost(const void* from, void* to, std::size_t bytes) {
  return Copy(from, to, bytes, cudaMemcpyDeviceToHost);
}

// Streams do not wait for the default stream, so the copy must be over when the call returns.
absl::Status CudaDevice::Copy(const void* from, void* to, std::size_t bytes, cudaMemcpyKind kind) {
  if (absl::Status status = Bind(); !status.ok()) return status;
  cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, cudaStreamPerThread);
  if (error == cudaSuccess) error = cudaStreamSynchronize(cudaStreamPerThread);
  return CudaStatus(error, "cudaMemcpyAsync");
}

absl::Status CudaDevice::Bind() const {
  return CudaStatus(cudaSetDevice(ordinal_), "cudaSetDevice");
}

absl::StatusOr<std::unique_ptr<CudaDevice>> OpenCudaDevice(int ordinal) {
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
  // The attention kernels use instructions that exist on compute capability 9.0 alone.
  if (properties.major != 9 || properties.minor != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("GPU ", ordinal, " (", properties.name, ") has compute capability ",
                     properties.major, ".", properties.minor, "; this build is for 9.0"));
  }
  return std::make_unique<CudaDevice>(ordinal, properties);
}

}  // namespace thresher
