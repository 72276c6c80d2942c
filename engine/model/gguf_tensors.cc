#include "engine/model/gguf_tensors.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

std::optional<WeightFormat> FormatOf(std::uint32_t type) {
  switch (type) {
    case 0:
      return WeightFormat::kF32;
    case 1:
      return WeightFormat::kF16;
    case 2:
      return WeightFormat::kQ4_0;
    case 3:
      return WeightFormat::kQ4_1;
    case 6:
      return WeightFormat::kQ5_0;
    case 7:
      return WeightFormat::kQ5_1;
    case 8:
      return WeightFormat::kQ8_0;
    case 12:
      return WeightFormat::kQ4_K;
    case 13:
      return WeightFormat::kQ5_K;
    case 14:
      return WeightFormat::kQ6_K;
    case 30:
      return WeightFormat::kBF16;
    default:
      return std::nullopt;
  }
}

struct PlacedTensor {
  GgufTensor tensor;
  std::uint64_t offset = 0;  // from the start of the tensor data
  std::uint64_t num_bytes = 0;
};

// Shape, format and size; the place in the file is checked once the data's start is known.
absl::StatusOr<PlacedTensor> ReadTensor(ByteCursor& cursor, const std::string& name) {
  absl::StatusOr<std::uint32_t> num_dimensions = cursor.Number<std::uint32_t>("a tensor's rank");
  if (!num_dimensions.ok()) return num_dimensions.status();
  if (*num_dimensions < 1 || *num_dimensions > 4) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' has ", *num_dimensions,
                                                   " dimensions; it must have 1 to 4"));
  }
  PlacedTensor placed;
  std::uint64_t elements = 1;
  // Far above any weight, and far enough from overflow for the sizes in bytes.
  constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 48;
  for (std::uint32_t i = 0; i < *num_dimensions; ++i) {
    absl::StatusOr<std::uint64_t> size = cursor.Number<std::uint64_t>("a tensor's shape");
    if (!size.ok()) return size.status();
    if (*size == 0 || *size > kMaxElements / elements) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "': dimension ", i, " is ",
                                                     *size, "; each must be positive and all ",
                                                     "together at most 2^48"));
    }
    elements *= *size;
    placed.tensor.shape.insert(placed.tensor.shape.begin(), static_cast<std::int64_t>(*size));
  }
  absl::StatusOr<std::uint32_t> type = cursor.Number<std::uint32_t>("a tensor's type");
  if (!type.ok()) return type.status();
  const std::optional<WeightFormat> format = FormatOf(*type);
  if (!format.has_value()) {
    return absl::UnimplementedError(absl::StrCat(
        "tensor '", name, "' has ggml type ", *type,
        "; this engine reads F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K"));
  }
  placed.tensor.format = *format;
  const int block_elements = BlockElements(*format);
  if (placed.tensor.shape.back() % block_elements != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", name, "' has rows of ", placed.tensor.shape.back(),
                     " elements; its format needs a multiple of ", block_elements));
  }
  placed.num_bytes = elements / static_cast<std::uint64_t>(block_elements) *
                     static_cast<std::uint64_t>(BlockBytes(*format));
  absl::StatusOr<std::uint64_t> offset = cursor.Number<std::uint64_t>("a tensor's offset");
  if (!offset.ok()) return offset.status();
  placed.offset = *offset;
  return placed;
}

absl::Status PlaceTensors(std::vector<PlacedTensor>& placed, std::span<const std::byte> data,
                          std::uint32_t alignment) {
  std::vector<std::size_t> by_offset(placed.size());
  for (std::size_t i = 0; i < placed.size(); ++i) {
    PlacedTensor& entry = placed[i];
    const std::string name(entry.tensor.name);
    if (entry.offset % alignment != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor '", name, "' lies at offset ", entry.offset, ", not a multiple of ", alignment));
    }
    if (entry.offset > data.size() || entry.num_bytes > data.size() - entry.offset) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' needs ", entry.num_bytes,
                                                     " bytes at offset ", entry.offset,
                                                     "; the file's tensor data has ", data.size()));
    }
    entry.tensor.bytes = data.subspan(entry.offset, entry.num_bytes);
    by_offset[i] = i;
  }
  std::sort(by_offset.begin(), by_offset.end(),
            [&](std::size_t a, std::size_t b) { return placed[a].offset < placed[b].offset; });
  for (std::size_t i = 1; i < by_offset.size(); ++i) {
    const PlacedTensor& before = placed[by_offset[i - 1]];
    const PlacedTensor& after = placed[by_offset[i]];
    if (before.offset + before.num_bytes > after.offset) {
      return absl::InvalidArgumentError(absl::StrCat("tensors '", std::string(before.tensor.name),
                                                     "' and '", std::string(after.tensor.name),
                                                     "' overlap"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<GgufTensor>> ReadGgufTensors(ByteCursor& cursor, std::uint64_t count,
                                                        std::uint32_t alignment,
                                                        std::span<const std::byte> file) {
  std::vector<PlacedTensor> placed;
  placed.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    absl::StatusOr<std::string_view> name = cursor.String("a tensor's name");
    if (!name.ok()) return name.status();
    absl::StatusOr<PlacedTensor> tensor = ReadTensor(cursor, std::string(*name));
    if (!tensor.ok()) return tensor.status();
    tensor->tensor.name = *name;
    placed.push_back(*std::move(tensor));
  }
  const std::uint64_t data_begin = (cursor.offset() + alignment - 1) / alignment * alignment;
  const std::span<const std::byte> data =
      file.subspan(std::min<std::uint64_t>(data_begin, file.size()));
  if (absl::Status status = PlaceTensors(placed, data, alignment); !status.ok()) return status;
  std::vector<GgufTensor> tensors;
  tensors.reserve(placed.size());
  for (PlacedTensor& entry : placed) tensors.push_back(std::move(entry.tensor));
  return tensors;
}

}  // namespace thresher
