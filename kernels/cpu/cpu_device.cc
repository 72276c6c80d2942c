#include "kernels/cpu/cpu_device.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <utility>

namespace thresher {
namespace {

class CpuStream final : public Stream {
 public:
  absl::Status Synchronize() override { return absl::OkStatus(); }
};

// The system would promise more and end the process when it is touched.
std::size_t PhysicalBytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * page : SIZE_MAX;
}

void ReleaseHostMemory(void* memory, std::size_t) { std::free(memory); }

}  // namespace

CpuDevice::CpuDevice(std::string description) : description_(std::move(description)) {}

DeviceKind CpuDevice::kind() const { return DeviceKind::kCpu; }

std::string CpuDevice::Description() const { return description_; }

absl::StatusOr<DeviceBuffer> CpuDevice::Allocate(std::size_t bytes) {
  if (bytes == 0) return DeviceBuffer();
  const std::size_t alignment = bytes >= (std::size_t{1} << 20) ? 4096 : 256;
  // aligned_alloc wants a multiple of the alignment; pages are not touched, so a cache that is
  // reserved but unused costs no memory.
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = nullptr;
  if (bytes <= PhysicalBytes()) memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError("cannot allocate " + std::to_string(bytes) +
                                        " bytes of host memory");
  }
  return DeviceBuffer(memory, bytes, ReleaseHostMemory);
}

absl::StatusOr<std::unique_ptr<Stream>> CpuDevice::CreateStream() {
  return std::make_unique<CpuStream>();
}

}  // namespace thresher
