#include "engine/model/gguf_parser.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/byte_cursor.h"
#include "engine/model/gguf_tensors.h"

namespace thresher {
namespace {

constexpr std::uint32_t kMaxAlignment = 1 << 20;
constexpr std::uint64_t kMinEntryBytes = 8 + 4 + 1;  // key length, type, smallest value
constexpr std::uint64_t kMinTensorBytes =
    8 + 4 + 8 + 12;  // name length, rank, one size, type, offset

absl::Status CheckMagicAndVersion(ByteCursor& cursor) {
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

absl::StatusOr<std::uint32_t> ReadAlignment(const GgufMetadata& metadata) {
  const auto found = metadata.find("general.alignment");
  if (found == metadata.end()) return 32;
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

}  // namespace

absl::StatusOr<GgufContents> ParseGguf(std::span<const std::byte> file) {
  ByteCursor cursor(file);
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
  absl::StatusOr<GgufMetadata> metadata = ReadGgufMetadata(cursor, *num_entries, file);
  if (!metadata.ok()) return metadata.status();
  contents.metadata = *std::move(metadata);
  absl::StatusOr<std::uint32_t> alignment = ReadAlignment(contents.metadata);
  if (!alignment.ok()) return alignment.status();
  absl::StatusOr<std::vector<GgufTensor>> tensors =
      ReadGgufTensors(cursor, *num_tensors, *alignment, file);
  if (!tensors.ok()) return tensors.status();
  contents.tensors = *std::move(tensors);
  for (std::size_t i = 0; i < contents.tensors.size(); ++i) {
    const std::string_view name = contents.tensors[i].name;
    if (!contents.tensor_index.emplace(name, i).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", std::string(name), "' appears twice"));
    }
  }
  return contents;
}

}  // namespace thresher
