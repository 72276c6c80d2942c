// Wire types: 0 varint, 1 fixed64, 2 length and bytes, 5 fixed32. Groups (3, 4) are refused.
#include "engine/text/proto_reader.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace thresher {

float ProtoField::AsFloat() const {
  const auto bits = static_cast<std::uint32_t>(number_bits);
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

absl::Status ProtoReader::Damaged(const char* problem) const {
  return absl::InvalidArgumentError(
      absl::StrCat("the protocol buffer is damaged at byte ", offset_ + at_, ": ", problem));
}

absl::StatusOr<std::uint64_t> ProtoReader::Varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (AtEnd()) return Damaged("a number is cut off");
    const auto byte = static_cast<unsigned char>(message_[at_++]);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return Damaged("a number has more than ten bytes");
}

absl::StatusOr<std::uint64_t> ProtoReader::Fixed(int num_bytes) {
  if (message_.size() - at_ < static_cast<std::size_t>(num_bytes)) {
    return Damaged("a number is cut off");
  }
  std::uint64_t value = 0;
  for (int i = 0; i < num_bytes; ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(message_[at_++])) << (8 * i);
  }
  return value;
}

absl::StatusOr<ProtoField> ProtoReader::Next() {
  const absl::StatusOr<std::uint64_t> tag = Varint();
  if (!tag.ok()) return tag.status();
  ProtoField field;
  field.number = static_cast<int>((*tag >> 3) & 0x1FFFFFFF);
  absl::StatusOr<std::uint64_t> value;
  switch (*tag & 7) {
    case 0:
    case 2:
      value = Varint();
      break;
    case 1:
      value = Fixed(8);
      break;
    case 5:
      value = Fixed(4);
      break;
    default:
      return Damaged("a field has an unknown wire type");
  }
  if (!value.ok()) return value.status();
  field.number_bits = *value;
  if ((*tag & 7) != 2) return field;
  if (*value > message_.size() - at_) return Damaged("a field is longer than its message");
  bytes_at_ = at_;
  field.has_bytes = true;
  field.bytes = message_.substr(at_, *value);
  at_ += *value;
  return field;
}

}  // namespace thresher
