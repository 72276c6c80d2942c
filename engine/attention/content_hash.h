// A 64-bit hash to notice damage and mix-ups. Not against an adversary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace thresher {

// FNV-1a, fed piece by piece: the pieces' borders do not count.
class ContentHash final {
 public:
  void Add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
      value_ = (value_ ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3u;
    }
  }
  void Add(std::string_view text) { Add(std::as_bytes(std::span(text))); }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace thresher
