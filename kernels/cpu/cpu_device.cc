#include "kernels/cpu/cpu_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace thresher {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

class CpuStream final : public Stream {
 public:
  absl::Status Synchronize() override { return absl::OkStatus(); }
};

class CpuEvent final : public DeviceEvent {
 public:
  absl::Status Record(Stream&) override { return absl::OkStatus(); }
  absl::Status Wait() override { return absl::OkStatus(); }
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

absl::StatusOr<DeviceMemory> CpuDevice::Memory() {
  const long free_pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  const std::size_t total = PhysicalBytes();
  if (free_pages < 0 || page <= 0 || total == SIZE_MAX) {
    return absl::UnavailableError("the system does not tell how much memory it has");
  }
  return DeviceMemory{.total_bytes = static_cast<std::int64_t>(total),
                      .free_bytes = std::int64_t{free_pages} * page};
}

absl::StatusOr<DeviceBuffer> CpuDevice::Allocate(std::size_t bytes) {
  if (bytes == 0) return DeviceBuffer();
  const bool huge = bytes >= 2 * kHugePage;
  const std::size_t alignment = huge ? kHugePage : bytes >= (std::size_t{1} << 20) ? 4096 : 256;
  // aligned_alloc wants a multiple of the alignment. Pages are not touched here, so what is
  // reserved and never used costs no memory.
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = nullptr;
  if (bytes <= PhysicalBytes()) memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError("cannot allocate " + std::to_string(bytes) +
                                        " bytes of host memory");
  }
  // Advice only. Scattered blocks of a cache are read faster: a miss of the
  // page table's cache costs more than the 4 KiB behind it.
  if (huge) madvise(memory, rounded, MADV_HUGEPAGE);
  return DeviceBuffer(memory, bytes, ReleaseHostMemory);
}

absl::StatusOr<std::unique_ptr<Stream>> CpuDevice::CreateStream() {
  return std::make_unique<CpuStream>();
}

absl::StatusOr<std::unique_ptr<DeviceEvent>> CpuDevice::CreateEvent() {
  return std::make_unique<CpuEvent>();
}

absl::StatusOr<DeviceBuffer> CpuDevice::AllocateHost(std::size_t bytes) { return Allocate(bytes); }

absl::StatusOr<std::unique_ptr<CapturedWork>> CpuDevice::Capture(
    Stream&, absl::FunctionRef<absl::Status()>) {
  return absl::UnimplementedError("work on the CPU runs in the caller and cannot be captured");
}

absl::Status CpuDevice::CopyToDevice(const void* from, void* to, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return absl::OkStatus();
}

absl::Status CpuDevice::CopyToHost(const void* from, void* to, std::size_t bytes) {
  return CopyToDevice(from, to, bytes);
}

}  // namespace thresher
