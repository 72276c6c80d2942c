// The metadata of a GGUF file: keys and typed values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "engine/model/byte_cursor.h"

namespace thresher {

// The type numbers of the file format.
enum class GgufType : std::uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64
};

// Bytes of one number or bool; 0 for strings and arrays.
int GgufTypeBytes(GgufType type);

// A value as it lies in the file; its bytes have been checked to be all there.
struct GgufValue {
  GgufType type{};
  GgufType element_type{};  // of an array
  std::uint64_t count = 0;  // of an array
  // A number; the characters of a string; the elements of an array, strings with their lengths.
  std::span<const std::byte> bytes;
};

using GgufMetadata = std::unordered_map<std::string_view, GgufValue>;

// Reads `count` entries at the cursor, which goes over `file`; the result points into it.
// InvalidArgument naming the key.
absl::StatusOr<GgufMetadata> ReadGgufMetadata(ByteCursor& cursor, std::uint64_t count,
                                              std::span<const std::byte> file);

}  // namespace thresher
