// Philox4x32-10, a counter-based random number generator: J. Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011, section 4.
#pragma once

#include <array>
#include <cstdint>

namespace thresher {

// Four random words; a pure function of key and counter.
constexpr std::array<std::uint32_t, 4> Philox(std::array<std::uint32_t, 4> counter,
                                              std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// Uniform in [0, 1), 53 bits, for the draw of one token.
constexpr double UniformDraw(std::uint64_t seed, std::uint32_t choice_index,
                             std::uint32_t position) {
  const std::array<std::uint32_t, 4> words =
      Philox({position, choice_index, 0, 0},
             {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  const std::uint64_t bits = (std::uint64_t{words[0]} << 32 | words[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace thresher
