// Small host arrays on their way to the device, without waiting for it.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace thresher {

// Page-locked buffers, used in turn. Waits only if all of them are still being read; allocates only
// while it grows. One thread at a time, and one stream at a time.
class UploadRing final {
 public:
  UploadRing() = default;
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;
  ~UploadRing();

  // Copies `bytes` to device memory `to` in the stream's order. The caller may change its bytes as
  // soon as the call returns.
  absl::Status Upload(std::span<const std::byte> bytes, void* to, cudaStream_t stream);

 private:
  struct Slot {
    void* memory = nullptr;
    std::size_t capacity = 0;
    cudaEvent_t copied = nullptr;
  };
  std::array<Slot, 32> slots_;
  std::size_t next_ = 0;
};

// An array that kernels read, kept on the device until other numbers come: a step's positions are
// those of each of its layers, and travel once.
class UploadedArray final {
 public:
  UploadedArray(Device& device, UploadRing& ring) : device_(device), ring_(ring) {}

  // Makes room for arrays of so many bytes.
  absl::Status Reserve(std::size_t bytes);

  // The device's copy of `values`, valid in the stream's order until the next call.
  template <typename T>
  absl::StatusOr<const T*> Of(std::span<const T> values, cudaStream_t stream) {
    const absl::Status status = Hold(std::as_bytes(values), stream);
    if (!status.ok()) return status;
    return static_cast<const T*>(memory_.get());
  }

 private:
  absl::Status Hold(std::span<const std::byte> bytes, cudaStream_t stream);

  Device& device_;
  UploadRing& ring_;
  DeviceBuffer memory_;
  std::vector<std::byte> held_;
};

}  // namespace thresher
