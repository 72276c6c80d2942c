#include "engine/bench/device_bandwidth.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

namespace thresher {

absl::StatusOr<double> PassBandwidth(Backend& backend) {
  constexpr std::int64_t kRows = 8192, kCols = 16384;
  constexpr std::size_t kBytes = kRows * kCols * sizeof(float);
  constexpr int kPasses = 8;
  Device& device = backend.device();
  absl::StatusOr<DeviceBuffer> from = device.Allocate(kBytes);
  if (!from.ok()) return from.status();
  absl::StatusOr<DeviceBuffer> to = device.Allocate(kBytes);
  if (!to.ok()) return to.status();
  absl::StatusOr<DeviceBuffer> weight = device.Allocate(kCols * sizeof(float));
  if (!weight.ok()) return weight.status();
  absl::StatusOr<std::unique_ptr<Stream>> stream = device.CreateStream();
  if (!stream.ok()) return stream.status();
  const std::vector<float> ones(kCols, 1.0f);
  absl::Status status = device.CopyToDevice(ones.data(), weight->get(), kCols * sizeof(float));
  for (std::int64_t row = 0; status.ok() && row < kRows; ++row) {
    status = device.CopyToDevice(ones.data(), from->bytes_at(row * kCols * 4), kCols * 4);
  }
  double best = 0;
  for (int pass = 0; status.ok() && pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    status = backend.ops().RmsNorm(TensorView::Of(from->get(), DType::kF32, kRows, kCols),
                                   TensorView::Of(weight->get(), DType::kF32, kCols), 1e-5f,
                                   TensorView::Of(to->get(), DType::kF32, kRows, kCols), **stream);
    if (status.ok()) status = (*stream)->Synchronize();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * kBytes / took.count());
  }
  if (!status.ok()) return status;
  return best;
}

}  // namespace thresher
