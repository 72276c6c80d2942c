#include "engine/model/gguf_metadata.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace thresher {
namespace {

constexpr std::uint64_t kMaxKeyBytes = 65535;  // the format's own limit
constexpr int kMaxArrayDepth = 4;

absl::StatusOr<GgufType> ReadType(ByteCursor& cursor) {
  absl::StatusOr<std::uint32_t> type = cursor.Number<std::uint32_t>("a value's type");
  if (!type.ok()) return type.status();
  if (*type > static_cast<std::uint32_t>(GgufType::kFloat64)) {
    return absl::InvalidArgumentError(absl::StrCat("value type ", *type, " is not known"));
  }
  return static_cast<GgufType>(*type);
}

absl::StatusOr<GgufValue> ReadValue(ByteCursor& cursor, GgufType type,
                                    std::span<const std::byte> file, int depth);

// The elements of an array of strings or arrays have to be walked to find its end.
absl::StatusOr<GgufValue> ReadArray(ByteCursor& cursor, std::span<const std::byte> file,
                                    int depth) {
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

absl::StatusOr<GgufValue> ReadValue(ByteCursor& cursor, GgufType type,
                                    std::span<const std::byte> file, int depth) {
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

}  // namespace

int GgufTypeBytes(GgufType type) {
  constexpr int kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<std::size_t>(type)];
}

absl::StatusOr<GgufMetadata> ReadGgufMetadata(ByteCursor& cursor, std::uint64_t count,
                                              std::span<const std::byte> file) {
  GgufMetadata metadata;
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
    if (!metadata.emplace(*key, *value).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("metadata '", std::string(*key), "' appears twice"));
    }
  }
  return metadata;
}

}  // namespace thresher
