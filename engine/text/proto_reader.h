// Reads the wire format of protocol buffers, field by field, without the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace thresher {

struct ProtoField {
  int number = 0;
  bool has_bytes = false;         // a string, bytes or message; else a number
  std::string_view bytes;         // points into the message
  std::uint64_t number_bits = 0;  // varint, or the bits of a fixed32 or fixed64
  float AsFloat() const;          // of a fixed32
};

// One thread; the message outlives it.
class ProtoReader final {
 public:
  // `offset` is where the message begins in its file, for errors.
  explicit ProtoReader(std::string_view message, std::size_t offset = 0)
      : message_(message), offset_(offset) {}
  bool AtEnd() const { return at_ == message_.size(); }
  // InvalidArgument naming the byte of the file that is damaged.
  absl::StatusOr<ProtoField> Next();
  // Where the bytes of the last field begin in the file.
  std::size_t BytesOffset() const { return offset_ + bytes_at_; }

 private:
  absl::Status Damaged(const char* problem) const;
  absl::StatusOr<std::uint64_t> Varint();
  absl::StatusOr<std::uint64_t> Fixed(int num_bytes);

  std::string_view message_;
  std::size_t offset_;
  std::size_t at_ = 0;
  std::size_t bytes_at_ = 0;
};

}  // namespace thresher
