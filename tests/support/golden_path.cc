#include "tests/support/golden_path.h"

namespace thresher::testing {

const char* GoldenDir() { return THRESHER_GOLDEN_DIR; }

std::string GoldenPath(const std::string& name) { return std::string(GoldenDir()) + "/" + name; }

}  // namespace thresher::testing
