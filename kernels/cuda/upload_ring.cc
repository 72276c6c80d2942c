#include "kernels/cuda/upload_ring.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "kernels/cuda/cuda_status.h"

namespace thresher {

UploadRing::~UploadRing() {
  for (const Slot& slot : slots_) {
    if (slot.copied != nullptr) cudaEventDestroy(slot.copied);
    if (slot.memory != nullptr) cudaFreeHost(slot.memory);
  }
}

absl::Status UploadRing::Upload(std::span<const std::byte> bytes, void* to, cudaStream_t stream) {
  if (bytes.empty()) return absl::OkStatus();
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &capture) == cudaSuccess &&
      capture != cudaStreamCaptureStatusNone) {
    // Replays would read what the slot holds by then.
    return absl::InternalError("an array that was not staged is uploaded while work is captured");
  }
  Slot& slot = slots_[next_++ % slots_.size()];
  cudaError_t error = cudaSuccess;
  if (slot.copied == nullptr) {
    error = cudaEventCreateWithFlags(&slot.copied, cudaEventDisableTiming);
  } else {
    error = cudaEventSynchronize(slot.copied);
  }
  if (error == cudaSuccess && slot.capacity < bytes.size()) {
    if (slot.memory != nullptr) cudaFreeHost(slot.memory);
    slot = {.copied = slot.copied};
    const std::size_t capacity = std::bit_ceil(std::max<std::size_t>(bytes.size(), 4096));
    error = cudaMallocHost(&slot.memory, capacity);
    if (error == cudaSuccess) slot.capacity = capacity;
  }
  if (error != cudaSuccess) return CudaStatus(error, "preparing an upload");
  std::memcpy(slot.memory, bytes.data(), bytes.size());
  error = cudaMemcpyAsync(to, slot.memory, bytes.size(), cudaMemcpyHostToDevice, stream);
  if (error == cudaSuccess) error = cudaEventRecord(slot.copied, stream);
  return CudaStatus(error, "uploading an array");
}

absl::Status UploadedArray::Reserve(std::size_t bytes) {
  held_.reserve(bytes);
  if (memory_.num_bytes() >= bytes && memory_.get() != nullptr) return absl::OkStatus();
  absl::StatusOr<DeviceBuffer> memory =
      device_.Allocate(std::bit_ceil(std::max<std::size_t>(bytes, 256)));
  if (!memory.ok()) return memory.status();
  held_.clear();
  // Freeing the smaller buffer waits for the kernels that read it.
  memory_ = *std::move(memory);
  return absl::OkStatus();
}

absl::Status UploadedArray::Hold(std::span<const std::byte> bytes, cudaStream_t stream) {
  if (absl::Status status = Reserve(bytes.size()); !status.ok()) return status;
  if (std::ranges::equal(bytes, held_)) return absl::OkStatus();
  held_.clear();
  if (absl::Status status = ring_.Upload(bytes, memory_.get(), stream); !status.ok()) return status;
  held_.assign(bytes.begin(), bytes.end());
  return absl::OkStatus();
}

}  // namespace thresher
