#include "kernels/device/device.h"

#include <utility>

namespace thresher {

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      release_(std::exchange(other.release_, nullptr)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(release_, other.release_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (memory_ != nullptr) release_(memory_, bytes_);
}

}  // namespace thresher
