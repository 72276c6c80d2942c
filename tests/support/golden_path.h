// Where the stored goldens are. Known to one file alone, so that the compiler's cache serves every
// checkout.
#pragma once

#include <string>

namespace thresher::testing {

// tests/golden.
const char* GoldenDir();
// The path of a file below it.
std::string GoldenPath(const std::string& name);

}  // namespace thresher::testing
