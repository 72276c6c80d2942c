// Each token decodes by itself, so that a sequence can be decoded as it grows.
#include "engine/text/token_decoding.h"

#include <optional>

namespace thresher {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (std::size_t at = 0;;) {
    const std::size_t found = text.find(from, at);
    out.append(text.substr(at, found - at));
    if (found == std::string_view::npos) return out;
    out.append(to);
    at = found + from.size();
  }
}

}  // namespace

int ByteOfFallbackToken(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const int high = HexDigit(text[3]);
  const int low = HexDigit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::string DecodeToken(std::string_view text, const TokenDecoding& decoding,
                        const ByteAlphabet& alphabet) {
  std::string out(text);
  for (const auto& [from, to] : decoding.replacements) out = ReplaceAll(out, from, to);
  if (decoding.byte_fallback) {
    const int byte = ByteOfFallbackToken(out);
    if (byte >= 0) return std::string(1, static_cast<char>(byte));
  }
  if (decoding.byte_level) {
    if (std::optional<std::string> bytes = alphabet.ToBytes(out); bytes.has_value()) return *bytes;
  }
  return out;
}

}  // namespace thresher
