// One pass a string; every choice comes from the seed.
#include "tests/support/hard_strings.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "engine/text/utf8.h"

namespace thresher::testing {
namespace {

constexpr std::uint64_t kSeed = 0x7468726573686572;

// SplitMix64 (Steele, Lea and Flood, 2014).
class SplitMix64 final {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

struct Alphabet {
  std::vector<std::string> fragments;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges;
};

void AppendRepeated(const std::string& text, std::uint64_t times, std::string& out) {
  for (std::uint64_t i = 0; i < times; ++i) out += text;
}

void AppendPart(std::uint64_t r, const Alphabet& alphabet, std::string& out) {
  const std::uint64_t kind = r & 15;
  const std::string& fragment = alphabet.fragments[(r >> 8) % alphabet.fragments.size()];
  if (kind <= 10) {
    out += fragment;
  } else if (kind == 11) {
    const auto& [low, high] = alphabet.ranges[(r >> 8) % alphabet.ranges.size()];
    AppendUtf8(low + static_cast<std::uint32_t>((r >> 24) % (high - low + 1)), out);
  } else if (kind == 12) {
    AppendRepeated(fragment, 2 + (r >> 24) % 40, out);
  } else if (kind == 13) {
    AppendRepeated(" ", 1 + (r >> 8) % 40, out);
  } else if (kind == 14) {
    std::uint64_t limit = 10;
    for (std::uint64_t i = 0; i < (r >> 4) % 4 * 3; ++i) limit *= 10;
    out += std::to_string((r >> 8) % limit);
  } else {
    out.append(1 + (r >> 16) % 60, static_cast<char>('a' + (r >> 8) % 26));
  }
}

}  // namespace

std::string ReadTokenizerGolden(const std::string& golden_dir, const std::string& name) {
  const std::string path = golden_dir + "/tokenizers/" + name;
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<std::string> HardStrings(const std::string& golden_dir, int count) {
  const auto document = nlohmann::json::parse(ReadTokenizerGolden(golden_dir, "fragments.json"));
  const Alphabet alphabet{document["fragments"], document["ranges"]};
  std::vector<std::string> strings(count);
  for (int i = 0; i < count; ++i) {
    SplitMix64 random(kSeed + static_cast<std::uint64_t>(i));
    const std::uint64_t num_parts = 1 + random.Next() % 10;
    for (std::uint64_t part = 0; part < num_parts; ++part) {
      AppendPart(random.Next(), alphabet, strings[i]);
    }
  }
  return strings;
}

std::uint32_t IdsHash(const std::vector<TokenId>& ids) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const TokenId id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ ((static_cast<std::uint32_t>(id) >> shift) & 0xFF)) * 0x100000001B3;
    }
  }
  return static_cast<std::uint32_t>((hash ^ (hash >> 24) ^ (hash >> 48)) & 0xFFFFFF);
}

std::vector<std::uint32_t> GoldenHashes(const std::string& golden_dir, const std::string& name) {
  constexpr int kDigits = 6;
  std::string digits = ReadTokenizerGolden(golden_dir, name + ".hashes");
  std::erase(digits, '\n');
  std::vector<std::uint32_t> hashes;
  for (std::size_t i = 0; i + kDigits <= digits.size(); i += kDigits) {
    hashes.push_back(
        static_cast<std::uint32_t>(std::stoul(digits.substr(i, kDigits), nullptr, 16)));
  }
  return hashes;
}

}  // namespace thresher::testing
