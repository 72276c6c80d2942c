#include "engine/model/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

constexpr std::uint64_t kMaxKeyBytes = 65535;  // the format's own limit
constexpr int kMaxArrayDepth = 4;
constexpr std::uint32_t kMaxAlignment = 1 << 20;
constexpr std::uint64_t kMinEntryBytes = 8 + 4 + 1;        // key length, type, smallest value
constexpr std::uint64_t kMinTensorBytes = 8 + 4 + 8 + 12;  // name length, dimensions, type, offset

// Reads forward through the file; a read past the end says what was wanted.
class Cursor final {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t offset() const { return offset_; }
  std::uint64_t remaining() const { return bytes_.size() - offset_; }

  absl::StatusOr<std::span<const std::byte>> Take(std::uint64_t count, const char* what) {
    if (count > remaining()) {
      return absl::InvalidArgumentError(absl::StrCat("truncated at offset ", offset_, ": ", what,
                                                     " needs ", count, " bytes, the file has ",
                                                     remaining(), " left"));
    }
    const std::span<const std::byte> taken = bytes_.subspan(offset_, count);
    offset_ += count;
    return taken;
  }

  template <typename T>
  absl::StatusOr<T> Number(const char* what) {
    absl::StatusOr<std::span<const std::byte>> bytes = Take(sizeof(T), what);
    if (!bytes.ok()) return bytes.status();
    T value;
    std::memcpy(&value, bytes->data(), sizeof(T));
    return value;
  }

  absl::StatusOr<std::string_view> String(const char* what) {
    absl::StatusOr<std::uint64_t> length = Number<std::uint64_t>(what);
    if (!length.ok()) return length.status();
    absl::StatusOr<std::span<const std::byte>> bytes = Take(*length, what);
    if (!bytes.ok()) return bytes.status();
    return std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t offset_ = 0;
};

absl::StatusOr<GgufType> ReadType(Cursor& cursor) {
  absl::StatusOr<std::uint32_t> type = cursor.Number<std::uint32_t>("a value's type");
  if (!type.ok()) return type.status();
  if (*type > static_cast<std::uint32_t>(GgufType::kFloat64)) {
    return absl::InvalidArgumentError(absl::StrCat("value type ", *type, " is not known"));
  }
  return static_cast<GgufType>(*type);
}

absl::StatusOr<GgufValue> ReadValue(Cursor& cursor, GgufType type, std::span<const std::byte> file,
                                    int depth);

// The elements of an array of strings or arrays have to be walked to find its end.
absl::StatusOr<GgufValue> ReadArray(Cursor& cursor, std::span<const std::byte> file, int depth) {
  if (depth >= kMaxArrayDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat("arrays are nested deeper than ", kMaxArrayDepth));
  }
  absl::StatusOr<GgufType> element_type = ReadType(cursor);
  if (!element_type.ok()) return element_type.status();
  absl::StatusOr<std::uint64_t> count = cursor.Number<std::uint64_t>("an array's length");
  if (!count.ok()) return count.status();
  const std::uint64_t element_bytes =
      *element_type == GgufType::kString ? 8
      : *element_type == GgufType::kArray
          ? 12
          : static_cast<std::uint64_t>(GgufTypeBytes(*element_type));
  if (*count > cursor.remaining() / element_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("array of ", *count, " elements at offset ",
                                                   cursor.offset(), ", the file has ",
                                                   cursor.remaining(), " bytes left"));
  }
  const std::uint64_t begin = cursor.offset();
  if (*element_type == GgufType::kString || *element_type == GgufType::kArray) {
    for (std::uint64_t i = 0; i < *count; ++i) {
      absl::StatusOr<GgufValue> element = ReadValue(cursor, *element_type, file, depth + 1);
      if (!element.ok()) return element.status();
    }
  } else if (absl::StatusOr<std::span<const std::byte>> elements =
                 cursor.Take(*count * element_bytes, "an array");
             !elements.ok()) {
    return elements.status();
  }
  return GgufValue{.type = GgufType::kArray,
                   .element_type = *element_type,
                   .count = *count,
                   .bytes = file.subspan(begin, cursor.offset() - begin)};
}

absl::StatusOr<GgufValue> ReadValue(Cursor& cursor, GgufType type, std::span<const std::byte> file,
                                    int depth) {
  if (type == GgufType::kArray) return ReadArray(cursor, file, depth);
  GgufValue value;
  value.type = type;
  if (type == GgufType::kString) {
    absl::StatusOr<std::string_view> text = cursor.String("a string");
    if (!text.ok()) return text.status();
    value.bytes = std::as_bytes(std::span(*text));
    return value;
  }
  absl::StatusOr<std::span<const std::byte>> bytes =
      cursor.Take(static_cast<std::uint64_t>(GgufTypeBytes(type)), "a value");
  if (!bytes.ok()) return bytes.status();
  if (type == GgufType::kBool && std::to_integer<int>((*bytes)[0]) > 1) {
    return absl::InvalidArgumentError("a bool is neither 0 nor 1");
  }
  value.bytes = *bytes;
  return value;
}

absl::Status ReadMetadata(Cursor& cursor, std::uint64_t count, std::span<const std::byte> file,
                          GgufContents& contents) {
  for (std::uint64_t i = 0; i < count; ++i) {
    absl::StatusOr<std::string_view> key = cursor.String("a metadata key");
    if (!key.ok()) return key.status();
    if (key->empty() || key->size() > kMaxKeyBytes) {
      return absl::InvalidArgumentError(absl::StrCat("metadata key ", i, " has ", key->size(),
                                                     " bytes; it must be 1 to ", kMaxKeyBytes));
    }
    absl::StatusOr<GgufType> type = ReadType(cursor);
    absl::StatusOr<GgufValue> value =
        type.ok() ? ReadValue(cursor, *type, file, 0) : absl::StatusOr<GgufValue>(type.status());
    if (!value.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("metadata '", std::string(*key), "': ", value.status().message()));
    }
    if (!contents.metadata.emplace(*key, *value).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("metadata '", std::string(*key), "' appears twice"));
    }
  }
  return absl::OkStatus();
}

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
absl::StatusOr<PlacedTensor> ReadTensor(Cursor& cursor, const std::string& name) {
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

absl::StatusOr<std::uint32_t> ReadAlignment(const GgufContents& contents) {
  const auto found = contents.metadata.find("general.alignment");
  if (found == contents.metadata.end()) return 32;
  if (found->second.type != GgufType::kUint32) {
    return absl::InvalidArgumentError("metadata 'general.alignment' is not a uint32");
  }
  std::uint32_t alignment = 0;
  std::memcpy(&alignment, found->second.bytes.data(), sizeof alignment);
  if (!std::has_single_bit(alignment) || alignment < 8 || alignment > kMaxAlignment) {
    return absl::InvalidArgumentError(absl::StrCat("metadata 'general.alignment' is ", alignment,
                                                   "; it must be a power of two from 8 to ",
                                                   kMaxAlignment));
  }
  return alignment;
}

// Gives every tensor its bytes: aligned, inside the file, and no byte to two tensors.
absl::Status PlaceTensors(std::vector<PlacedTensor>& placed, std::span<const std::byte> data,
                          std::uint32_t alignment, GgufContents& contents) {
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
  contents.tensors.reserve(placed.size());
  for (PlacedTensor& entry : placed) contents.tensors.push_back(std::move(entry.tensor));
  return absl::OkStatus();
}

absl::Status CheckMagicAndVersion(Cursor& cursor) {
  absl::StatusOr<std::uint32_t> magic = cursor.Number<std::uint32_t>("the magic number");
  if (!magic.ok()) return magic.status();
  if (*magic != 0x46554747) return absl::InvalidArgumentError("does not start with 'GGUF'");
  absl::StatusOr<std::uint32_t> version = cursor.Number<std::uint32_t>("the version");
  if (!version.ok()) return version.status();
  if ((*version & 0xffff) == 0 && *version != 0) {
    return absl::UnimplementedError("a big-endian GGUF file; only little-endian ones are read");
  }
  if (*version != 2 && *version != 3) {
    return absl::UnimplementedError(
        absl::StrCat("GGUF version ", *version, "; only 2 and 3 are read"));
  }
  return absl::OkStatus();
}

}  // namespace

int GgufTypeBytes(GgufType type) {
  constexpr int kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<std::size_t>(type)];
}

absl::StatusOr<GgufContents> ParseGguf(std::span<const std::byte> file) {
  Cursor cursor(file);
  if (absl::Status status = CheckMagicAndVersion(cursor); !status.ok()) return status;
  absl::StatusOr<std::uint64_t> num_tensors = cursor.Number<std::uint64_t>("the tensor count");
  if (!num_tensors.ok()) return num_tensors.status();
  absl::StatusOr<std::uint64_t> num_entries = cursor.Number<std::uint64_t>("the metadata count");
  if (!num_entries.ok()) return num_entries.status();
  if (*num_entries > cursor.remaining() / kMinEntryBytes ||
      *num_tensors > cursor.remaining() / kMinTensorBytes) {
    return absl::InvalidArgumentError(absl::StrCat("claims ", *num_entries,
                                                   " metadata entries and ", *num_tensors,
                                                   " tensors in ", file.size(), " bytes"));
  }
  GgufContents contents;
  if (absl::Status status = ReadMetadata(cursor, *num_entries, file, contents); !status.ok()) {
    return status;
  }
  std::vector<PlacedTensor> placed;
  placed.reserve(*num_tensors);
  for (std::uint64_t i = 0; i < *num_tensors; ++i) {
    absl::StatusOr<std::string_view> name = cursor.String("a tensor's name");
    if (!name.ok()) return name.status();
    absl::StatusOr<PlacedTensor> tensor = ReadTensor(cursor, std::string(*name));
    if (!tensor.ok()) return tensor.status();
    tensor->tensor.name = *name;
    if (!contents.tensor_index.emplace(*name, placed.size()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", std::string(*name), "' appears twice"));
    }
    placed.push_back(*std::move(tensor));
  }
  absl::StatusOr<std::uint32_t> alignment = ReadAlignment(contents);
  if (!alignment.ok()) return alignment.status();
  const std::uint64_t data_begin = (cursor.offset() + *alignment - 1) / *alignment * *alignment;
  const std::span<const std::byte> data =
      file.subspan(std::min<std::uint64_t>(data_begin, file.size()));
  if (absl::Status status = PlaceTensors(placed, data, *alignment, contents); !status.ok()) {
    return status;
  }
  return contents;
}

}  // namespace thresher
