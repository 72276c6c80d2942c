// Memory and order of execution of one device. The only way to allocate device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace thresher {

enum class DeviceKind { kCpu, kCuda };

struct DeviceMemory {
  std::int64_t total_bytes = 0;
  std::int64_t free_bytes = 0;  // that nobody holds, this process or another
};

// Owned device memory, aligned to 256 bytes (CPU: to a page above 1 MiB). Movable. The device that
// made it outlives it.
class DeviceBuffer final {
 public:
  using Release = void (*)(void* memory, std::size_t bytes);

  DeviceBuffer() = default;
  DeviceBuffer(void* memory, std::size_t bytes, Release release)
      : memory_(memory), bytes_(bytes), release_(release) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  void* get() const { return memory_; }
  std::byte* bytes_at(std::int64_t offset) const {
    return static_cast<std::byte*>(memory_) + offset;
  }
  std::size_t num_bytes() const { return bytes_; }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
  Release release_ = nullptr;
};

// An ordered queue of work. On the CPU work runs in the caller before the call returns, so
// Synchronize has nothing to wait for. One thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  // Waits for all work queued so far; returns the first device error since the last call.
  virtual absl::Status Synchronize() = 0;
};

// A point in a stream's work that a host thread can wait for, another one than the stream's too. A
// thread may record it anew while no other waits.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  // After all work that the stream has been given so far.
  virtual absl::Status Record(Stream& stream) = 0;
  // Blocks until that work is done; at once if nothing was recorded. The first device error.
  virtual absl::Status Wait() = 0;
};

// Work that was captured from a stream: the same calls with the same arguments, at the cost of one.
// It holds addresses, so every tensor and workspace of those calls outlives it, and reads what lies
// there when it runs.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
  virtual absl::Status Launch(Stream& stream) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  // For logs and /version: "cpu avx512bf16, 2 threads".
  virtual std::string Description() const = 0;
  // As it is now. Unavailable if the device does not answer.
  virtual absl::StatusOr<DeviceMemory> Memory() = 0;
  // ResourceExhausted if the memory cannot be had; names the bytes asked for.
  virtual absl::StatusOr<DeviceBuffer> Allocate(std::size_t bytes) = 0;
  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateStream() = 0;
  virtual absl::StatusOr<std::unique_ptr<DeviceEvent>> CreateEvent() = 0;
  // Host memory that the device reads and writes while the host goes on, aligned to 256 bytes.
  virtual absl::StatusOr<DeviceBuffer> AllocateHost(std::size_t bytes) = 0;
  // Whether Capture can be called. Where work runs in the caller there is nothing to capture.
  virtual bool captures_work() const = 0;
  // Records what `queue` gives to the stream instead of running it. `queue` allocates nothing,
  // waits for nothing and uploads nothing (see TransformerOps::Stage). Its error, or the device's.
  virtual absl::StatusOr<std::unique_ptr<CapturedWork>> Capture(
      Stream& stream, absl::FunctionRef<absl::Status()> queue) = 0;
  // Copy `bytes` between host memory and this device's, and wait until they have arrived. They do
  // not wait for work queued on streams: synchronise those that use the memory first. For set-up
  // and tests, never in a step.
  virtual absl::Status CopyToDevice(const void* from, void* to, std::size_t bytes) = 0;
  virtual absl::Status CopyToHost(const void* from, void* to, std::size_t bytes) = 0;
};

}  // namespace thresher
