#include "engine/text/excerpt.h"

namespace thresher {

std::string Excerpt(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  std::size_t end = max_bytes;
  // Back to the first byte of the code point that would be cut; three bytes at most, so that text
  // that is not UTF-8 is cut too.
  for (int i = 0; i < 3 && end > 0 && (text[end] & 0xC0) == 0x80; ++i) --end;
  return std::string(text.substr(0, end)) + "…";
}

}  // namespace thresher
