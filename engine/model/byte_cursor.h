// Reads a file's bytes from front to back; no read goes past the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace thresher {

// InvalidArgument naming the offset and `what` was wanted if the file ends first. Numbers are
// little-endian. Borrows the bytes.
class ByteCursor final {
 public:
  explicit ByteCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}
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

  // 64 bits of length, then the characters.
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

}  // namespace thresher
