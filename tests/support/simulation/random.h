// Random numbers that are the same on every machine and library.
#pragma once

#include <cstdint>

namespace thresher::simulation {

// SplitMix64 (Steele, Lea, Flood 2014).
class Random final {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  // low to high, both included.
  int Between(int low, int high) {
    return low + static_cast<int>(Next() % (static_cast<std::uint64_t>(high - low) + 1));
  }
  bool Percent(int chance) { return Between(0, 99) < chance; }

 private:
  std::uint64_t state_;
};

// One step of a rolling hash over tokens: what a row of the cache stands for.
inline std::uint64_t Chain(std::uint64_t prefix, std::int64_t token) {
  return Random(prefix * 31 + static_cast<std::uint64_t>(token)).Next();
}

}  // namespace thresher::simulation
