// Builds the alphabet from its rule rather than from a stored table.
#include "engine/text/byte_alphabet.h"

#include "engine/text/utf8.h"

namespace thresher {
namespace {

bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

}  // namespace

ByteAlphabet::ByteAlphabet() {
  bytes_.fill(-1);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const int code_point = StandsForItself(byte) ? byte : next++;
    AppendUtf8(code_point, symbols_[byte]);
    bytes_[code_point] = static_cast<std::int16_t>(byte);
  }
}

std::optional<std::string> ByteAlphabet::ToBytes(std::string_view text) const {
  std::string bytes;
  while (!text.empty()) {
    const Utf8Step step = ReadUtf8(text);
    if (step.kind != Utf8Kind::kCodePoint || step.code_point >= kEnd ||
        bytes_[step.code_point] < 0) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(bytes_[step.code_point]));
    text.remove_prefix(step.length);
  }
  return bytes;
}

}  // namespace thresher
