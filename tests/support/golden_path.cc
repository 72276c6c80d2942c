#include "tests/support/golden_path.h"

#include <cstdlib>

namespace thresher::testing {

// A test binary that was carried to another machine finds the goldens where they were carried to.
const char* GoldenDir() {
  const char* carried = std::getenv("THRESHER_TEST_GOLDEN");
  return carried != nullptr && *carried != '\0' ? carried : THRESHER_GOLDEN_DIR;
}

std::string GoldenPath(const std::string& name) { return std::string(GoldenDir()) + "/" + name; }

}  // namespace thresher::testing
