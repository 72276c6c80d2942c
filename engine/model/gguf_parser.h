// The parse of a GGUF file's header: every metadata entry and every tensor, checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/gguf_file.h"

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

// A value as it lies in the file; its bytes have been checked to be all there.
struct GgufValue {
  GgufType type{};
  GgufType element_type{};  // of an array
  std::uint64_t count = 0;  // of an array
  // A number; the characters of a string; the elements of an array, strings with their lengths.
  std::span<const std::byte> bytes;
};

struct GgufContents {
  std::unordered_map<std::string_view, GgufValue> metadata;
  std::vector<GgufTensor> tensors;  // in the file's order
  std::unordered_map<std::string_view, std::size_t> tensor_index;
};

// `file` outlives the contents, which point into it. Memory is bounded by the file's size: a count
// is believed only as far as the bytes that it needs at least are there.
// InvalidArgument naming the offset, key or tensor; Unimplemented for another version, byte order
// or tensor format.
absl::StatusOr<GgufContents> ParseGguf(std::span<const std::byte> file);

// Bytes of one number or bool; 0 for strings and arrays.
int GgufTypeBytes(GgufType type);

}  // namespace thresher
