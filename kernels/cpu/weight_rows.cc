#include "kernels/cpu/weight_rows.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/generated_weight.h"

namespace thresher {
namespace {

constexpr int kNumFormats = static_cast<int>(WeightFormat::kQ6_K) + 1;
// Row and column numbers are 32-bit; products of the two then fit in 64 bits, padding included.
constexpr std::int64_t kMaxDim = std::numeric_limits<std::int32_t>::max() / 2;

absl::Status CheckGenerated(const WeightSource& source, const std::string& name) {
  const GeneratedNumbers& numbers = *source.generated;
  if (source.bytes != nullptr || source.format != WeightFormat::kBF16) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": generated numbers have no bytes and are BF16"));
  }
  if (!(numbers.deviation > 0 && std::isfinite(numbers.deviation))) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": deviation ", numbers.deviation, " is not above zero and finite"));
  }
  if (numbers.first_row < 0 || numbers.first_row > kMaxDim - source.rows) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", source.rows, " rows from ",
                                                   numbers.first_row, " are not within ", kMaxDim));
  }
  return absl::OkStatus();
}

absl::Status CheckShape(const WeightSource& source, const std::string& name) {
  if (static_cast<int>(source.format) >= kNumFormats) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": unknown weight format ", static_cast<int>(source.format)));
  }
  if (source.bytes == nullptr && !source.generated.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": no bytes"));
  }
  if (source.rows <= 0 || source.cols <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": shape [", source.rows, ", ", source.cols, "] is not positive"));
  }
  if (source.rows > kMaxDim || source.cols > kMaxDim) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": shape [", source.rows, ", ", source.cols, "] exceeds ", kMaxDim));
  }
  const int block = BlockElements(source.format);
  if (source.cols % block != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", source.cols, " columns are not whole blocks of ", block));
  }
  return source.generated.has_value() ? CheckGenerated(source, name) : absl::OkStatus();
}

absl::Status CheckSelection(const WeightSource& source, const std::string& name) {
  if (source.first_col < 0 || source.num_cols < 0 || source.first_col >= source.cols ||
      source.num_cols > source.cols - source.first_col) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", source.num_cols, " columns from ",
                                                   source.first_col, " are not within ",
                                                   source.cols));
  }
  if (source.num_cols == 0 && source.first_col != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": first_col ", source.first_col, " needs num_cols"));
  }
  for (const std::int32_t row : source.row_order) {
    if (row < 0 || row >= source.rows) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": row ", row, " is not within ", source.rows));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WeightRows> WeightRows::Create(const WeightSource& source, const std::string& name) {
  if (absl::Status status = CheckShape(source, name); !status.ok()) return status;
  if (absl::Status status = CheckSelection(source, name); !status.ok()) return status;
  return WeightRows(source);
}

WeightRows::WeightRows(const WeightSource& source)
    : source_(source),
      rows_(source.row_order.empty() ? source.rows
                                     : static_cast<std::int64_t>(source.row_order.size())),
      cols_(source.num_cols == 0 ? source.cols : source.num_cols) {
  const int group = groups().size;
  whole_groups_ = group != 0 && source.first_col % group == 0 && cols_ % group == 0;
}

std::int64_t WeightRows::StoredRow(std::int64_t row) const {
  return source_.row_order.empty() ? row : source_.row_order[static_cast<std::size_t>(row)];
}

const std::byte* WeightRows::RowBytes(std::int64_t row) const {
  const std::int64_t row_bytes =
      source_.cols / BlockElements(source_.format) * BlockBytes(source_.format);
  return source_.bytes + StoredRow(row) * row_bytes;
}

void WeightRows::Dequantize(std::int64_t row, float* out) const {
  if (source_.generated.has_value()) {
    GenerateRow(*source_.generated, StoredRow(row), source_.first_col, cols_, out);
    return;
  }
  DequantizeRow(source_.format, RowBytes(row), source_.first_col, cols_, out);
}

void WeightRows::Decode(std::int64_t row, Scratch& scratch, std::span<const std::int8_t>& integers,
                        std::span<const float>& scales, std::span<const float>& minima) const {
  const int block = BlockElements(source_.format), group = groups().size;
  const std::int64_t first_block = source_.first_col / block;
  const std::int64_t num_blocks = (source_.first_col + cols_ - 1) / block + 1 - first_block;
  const auto decoded = static_cast<std::size_t>(num_blocks * block);
  scratch.integers.resize(decoded);
  scratch.scales.resize(decoded / static_cast<std::size_t>(group));
  scratch.minima.resize(decoded / static_cast<std::size_t>(group));
  DecodeGroups(source_.format, RowBytes(row) + first_block * BlockBytes(source_.format), num_blocks,
               scratch.integers.data(), scratch.scales.data(), scratch.minima.data());
  const auto skipped = static_cast<std::size_t>(source_.first_col - first_block * block);
  const auto cols = static_cast<std::size_t>(cols_), size = static_cast<std::size_t>(group);
  integers = std::span<const std::int8_t>(scratch.integers).subspan(skipped, cols);
  scales = std::span<const float>(scratch.scales).subspan(skipped / size, cols / size);
  minima = std::span<const float>(scratch.minima).subspan(skipped / size, cols / size);
}

absl::StatusOr<std::vector<WeightRows>> CheckWeightParts(std::span<const WeightSource> parts) {
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
  return checked;
}

}  // namespace thresher
