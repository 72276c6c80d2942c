#include "kernels/cuda/cuda_weight.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/cpu/generated_weight.h"
#include "kernels/cpu/weight_rows.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/generate_rows.h"

namespace thresher {
namespace {

// Rows are unpacked and sent in stretches of about so many numbers.
constexpr std::int64_t kStretch = std::int64_t{1} << 22;

std::uint16_t RoundToBf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

absl::Status SendRows(const WeightRows& rows, DType dtype, std::byte* to, CudaDevice& device) {
  const std::int64_t cols = rows.cols(), most = std::max<std::int64_t>(1, kStretch / cols);
  std::vector<float> numbers(static_cast<std::size_t>(std::min(most, rows.rows()) * cols));
  std::vector<std::uint16_t> rounded(dtype == DType::kBF16 ? numbers.size() : 0);
  for (std::int64_t first = 0; first < rows.rows(); first += most) {
    const std::int64_t count = std::min(most, rows.rows() - first);
    for (std::int64_t i = 0; i < count; ++i) {
      rows.Dequantize(first + i, numbers.data() + i * cols);
    }
    const void* from = numbers.data();
    if (dtype == DType::kBF16) {
      std::transform(numbers.begin(), numbers.begin() + count * cols, rounded.begin(), RoundToBf16);
      from = rounded.data();
    }
    const std::int64_t bytes = count * cols * SizeOf(dtype);
    absl::Status status = device.CopyToDevice(from, to, static_cast<std::size_t>(bytes));
    if (!status.ok()) return status;
    to += bytes;
  }
  return absl::OkStatus();
}

// Nothing travels but the order of the rows.
absl::Status MakeRows(const WeightRows& rows, DType dtype, std::byte* to, CudaDevice& device) {
  if (absl::Status status = device.Bind(); !status.ok()) return status;
  const WeightSource& source = rows.source();
  absl::StatusOr<DeviceBuffer> order = device.Allocate(source.row_order.size_bytes());
  if (!order.ok()) return order.status();
  if (!source.row_order.empty()) {
    absl::Status status =
        device.CopyToDevice(source.row_order.data(), order->get(), source.row_order.size_bytes());
    if (!status.ok()) return status;
  }
  cudaError_t error = LaunchGenerateRows(
      *source.generated,
      source.row_order.empty() ? nullptr : static_cast<const std::int32_t*>(order->get()),
      rows.rows(), source.first_col, rows.cols(), dtype, to, cudaStreamPerThread);
  if (error == cudaSuccess) error = cudaStreamSynchronize(cudaStreamPerThread);
  return CudaStatus(error, "generating a weight");
}

absl::StatusOr<std::unique_ptr<CudaWeight>> Pack(const std::vector<WeightRows>& parts,
                                                 CudaWeight::Use use, DType dtype,
                                                 CudaDevice& device) {
  std::int64_t rows = 0;
  const std::int64_t cols = parts.front().cols();
  for (const WeightRows& part : parts) rows += part.rows();
  absl::StatusOr<DeviceBuffer> memory =
      device.Allocate(static_cast<std::size_t>(rows * cols * SizeOf(dtype)));
  if (!memory.ok()) return memory.status();
  std::byte* to = memory->bytes_at(0);
  for (const WeightRows& part : parts) {
    absl::Status status = part.source().generated.has_value() ? MakeRows(part, dtype, to, device)
                                                              : SendRows(part, dtype, to, device);
    if (!status.ok()) return status;
    to += part.rows() * cols * SizeOf(dtype);
  }
  return std::make_unique<CudaWeight>(use, dtype, rows, cols, *std::move(memory));
}

}  // namespace

std::int64_t CudaWeight::BytesRead(std::int64_t num_rows) const {
  return use_ == Use::kLookUp ? num_rows * cols_ * SizeOf(dtype_) : num_bytes();
}

absl::StatusOr<std::unique_ptr<CudaWeight>> PackCudaWeight(std::span<const WeightSource> parts,
                                                           DType dtype, CudaDevice& device) {
  const absl::StatusOr<std::vector<WeightRows>> checked = CheckWeightParts(parts);
  if (!checked.ok()) return checked.status();
  return Pack(*checked, CudaWeight::Use::kProducts, dtype, device);
}

absl::StatusOr<std::unique_ptr<CudaWeight>> PackCudaEmbedding(const WeightSource& source,
                                                              CudaDevice& device) {
  absl::StatusOr<WeightRows> table = WeightRows::Create(source, "embedding");
  if (!table.ok()) return table.status();
  const DType dtype = table->format() == WeightFormat::kBF16 ? DType::kBF16 : DType::kF32;
  return Pack({*std::move(table)}, CudaWeight::Use::kLookUp, dtype, device);
}

}  // namespace thresher
