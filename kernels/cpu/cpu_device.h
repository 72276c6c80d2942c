// Host memory as a device. Work runs in the caller, so a stream has nothing to wait for.
#pragma once

#include <memory>
#include <string>

#include "kernels/device/device.h"

namespace thresher {

class CpuDevice final : public Device {
 public:
  // `description` as Device::Description gives it.
  explicit CpuDevice(std::string description);
  DeviceKind kind() const override;
  std::string Description() const override;
  absl::StatusOr<DeviceMemory> Memory() override;
  absl::StatusOr<DeviceBuffer> Allocate(std::size_t bytes) override;
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override;
  absl::StatusOr<std::unique_ptr<DeviceEvent>> CreateEvent() override;
  absl::StatusOr<DeviceBuffer> AllocateHost(std::size_t bytes) override;
  bool captures_work() const override { return false; }
  absl::StatusOr<std::unique_ptr<CapturedWork>> Capture(
      Stream& stream, absl::FunctionRef<absl::Status()> queue) override;
  absl::Status CopyToDevice(const void* from, void* to, std::size_t bytes) override;
  absl::Status CopyToHost(const void* from, void* to, std::size_t bytes) override;

 private:
  std::string description_;
};

}  // namespace thresher
