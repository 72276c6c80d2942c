#include "kernels/cuda/cuda_weight.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/weight_rows.h"

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
    if (absl::Status status = SendRows(part, dtype, to, device); !status.ok()) return status;
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
  if (parts.empty()) return absl::InvalidArgumentError("weight has no parts");
  std::vector<WeightRows> checked;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string name = absl::StrCat("weight part ", i);
    absl::StatusOr<WeightRows> rows = WeightRows::Create(parts[i], name);
    if (!rows.ok()) return rows.status();
    if (!checked.empty() && rows->cols() != checked.front().cols()) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, ": ", rows->cols(), " columns, but part 0 has ", checked.front().cols()));
    }
    checked.push_back(*std::move(rows));
  }
  return Pack(checked, CudaWeight::Use::kProducts, dtype, device);
}

absl::StatusOr<std::unique_ptr<CudaWeight>> PackCudaEmbedding(const WeightSource& source,
                                                              CudaDevice& device) {
  absl::StatusOr<WeightRows> table = WeightRows::Create(source, "embedding");
  if (!table.ok()) return table.status();
  const DType dtype = table->format() == WeightFormat::kBF16 ? DType::kBF16 : DType::kF32;
  return Pack({*std::move(table)}, CudaWeight::Use::kLookUp, dtype, device);
}

}  // namespace thresher
