// The strings on which tokenizers are compared with their references, and the hashes of the ids
// that those gave. tests/golden/scripts/hard_strings.py defines and makes the same ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/ids.h"

namespace thresher::testing {

// Reads golden/tokenizers/<name>; fails the test and is empty if it cannot.
std::string ReadTokenizerGolden(const std::string& golden_dir, const std::string& name);

// The first `count` strings.
std::vector<std::string> HardStrings(const std::string& golden_dir, int count);

// 24 bits of FNV-1a of the ids as little-endian 32-bit numbers.
std::uint32_t IdsHash(const std::vector<TokenId>& ids);

// The hashes stored for `name`, one a string.
std::vector<std::uint32_t> GoldenHashes(const std::string& golden_dir, const std::string& name);

}  // namespace thresher::testing
